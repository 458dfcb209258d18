"""Login, rights and forms, through Django's own stack; this process serves no engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard import people
from dashboard.attempts import MAX_BY_NAME, Attempts
from dashboard.words import digest
from relay.permits.models import Pool
from relay.tenants.models import Change

pytestmark = pytest.mark.django_db

FETCH = {"X-Requested-With": "fetch"}


@pytest.fixture(autouse=True)
def _fresh_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "attempts", Attempts())


@pytest.fixture
def operator(client: Client) -> Iterator[Client]:
    client.force_login(User.objects.create_superuser("mara", "", "a long password"))
    return client


def sign_in(client: Client, password: str, after: str = "") -> object:
    return client.post("/login/", {"username": "mara", "password": password, "next": after})


def test_the_overview_asks_strangers_to_sign_in(client: Client) -> None:
    response = client.get("/")
    assert (response.status_code, response.headers["Location"]) == (302, "/login/?next=/")


@pytest.mark.parametrize(
    ("after", "goes_to"),
    [
        ("/pools/", "/pools/"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
    ],
)
def test_signing_in_goes_on_to_own_paths_only(client: Client, after: str, goes_to: str) -> None:
    User.objects.create_superuser("mara", "", "a long password")
    response = sign_in(client, "a long password", after)
    assert (response.status_code, response.headers["Location"]) == (302, goes_to)  # type: ignore[attr-defined]


def test_a_wrong_password_says_so_and_keeps_the_name(client: Client) -> None:
    User.objects.create_superuser("mara", "", "a long password")
    response = sign_in(client, "wrong")
    assert response.status_code == 401  # type: ignore[attr-defined]
    assert b"Name and password do not match" in response.content  # type: ignore[attr-defined]
    assert b'value="mara"' in response.content  # type: ignore[attr-defined]


def test_after_five_wrong_passwords_even_the_right_one_must_wait(client: Client) -> None:
    User.objects.create_superuser("mara", "", "a long password")
    for _ in range(MAX_BY_NAME):
        sign_in(client, "wrong")
    response = sign_in(client, "a long password")
    assert response.status_code == 429  # type: ignore[attr-defined]
    assert int(response.headers["Retry-After"]) > 200  # type: ignore[attr-defined]


def test_the_admin_site_has_no_sign_in_of_its_own(client: Client) -> None:
    assert client.get("/admin/", follow=True).redirect_chain[-1] == ("/login/?next=%2Fadmin%2F", 302)
    client.force_login(User.objects.create_user("vic", "", "a long password"))
    assert client.get("/admin/", follow=True).status_code == 403


def test_a_password_is_changed_by_who_knows_the_old_one(operator: Client) -> None:
    new = {"new": "quite another word", "again": "quite another word"}
    assert operator.post("/password/", {"old": "wrong", **new}).status_code == 400
    assert operator.post("/password/", {"old": "a long password", **new}).status_code == 302
    assert operator.get("/password/").status_code == 200
    assert User.objects.get().check_password("quite another word")
    change = Change.objects.get()
    assert (change.kind, change.name, change.action, change.after) == ("person", "mara", "password", None)


def test_signing_out_needs_a_post(operator: Client) -> None:
    assert operator.get("/logout/").status_code == 405
    assert operator.post("/logout/").headers["Location"] == "/login/"
    assert operator.get("/").status_code == 302


def test_a_form_without_its_token_is_refused() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("mara", "", "a long password"))
    assert client.post("/pools/", {"name": "gpu", "capacity": "8"}).status_code == 403
    assert not Pool.objects.exists()


def test_without_an_engine_the_page_says_what_to_do(operator: Client) -> None:
    response = operator.get("/")
    assert response.status_code == 503
    assert b"manage.py serve" in response.content


def test_no_page_carries_inline_style_or_script(operator: Client) -> None:
    for page in (operator.get("/"), Client().get("/login/")):
        text = page.content.decode()
        assert " style=" not in text
        assert "<style" not in text
        assert text.count("<script") == text.count('<script type="module" src=')
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]


def test_a_pool_made_by_form_is_a_change_by_this_person(operator: Client) -> None:
    response = operator.post("/pools/", {"name": "gpu", "capacity": "8"})
    assert response.headers["Location"] == "/"
    assert Pool.objects.get(name="gpu").capacity == 8
    change = Change.objects.order_by("-id").first()
    assert change is not None
    assert (change.actor_kind, change.actor, change.name) == ("person", "mara", "gpu")


@pytest.mark.parametrize(
    ("form", "capacity"),
    [
        ({"act": "set", "size:gpu:1:8": "20"}, 20),
        ({"act": "percent", "pool": "gpu", "percent": "-10", "size:gpu:1:8": "8"}, 7),
        ({"act": "percent", "pool": "gpu", "percent": "1", "size:gpu:1:8": "8"}, 9),
    ],
)
def test_the_table_takes_a_number_and_a_percentage_of_what_was_shown(
    operator: Client, form: dict[str, str], capacity: int
) -> None:
    operator.post("/pools/", {"name": "gpu", "capacity": "8"})
    answer = operator.post("/pools/-/", form | {"next": "/?q=gpu"})
    assert (answer.status_code, answer.headers["Location"]) == (302, "/?q=gpu")
    assert Pool.objects.get(name="gpu").capacity == capacity


@pytest.mark.parametrize("capacity", ["0", "-3", "many", "", "1.5", "²", "99999999999"])
def test_a_wrong_capacity_changes_nothing_and_is_explained_to_the_script(operator: Client, capacity: str) -> None:
    operator.post("/pools/", {"name": "gpu", "capacity": "8"})
    response = operator.post("/pools/-/", {"size:gpu:1:8": capacity}, headers=FETCH)
    assert (response.status_code, response.json()["code"]) == (400, "invalid")
    assert Pool.objects.get(name="gpu").capacity == 8


@pytest.mark.parametrize("percent", ["", "lots", "-100", "1000", "nan"])
def test_a_wrong_percentage_changes_nothing(operator: Client, percent: str) -> None:
    operator.post("/pools/", {"name": "gpu", "capacity": "8"})
    form = {"act": "percent", "pool": "gpu", "percent": percent, "size:gpu:1:8": "8"}
    response = operator.post("/pools/-/", form, headers=FETCH)
    assert (response.status_code, response.json()["code"]) == (400, "invalid")
    assert Pool.objects.get(name="gpu").capacity == 8


def test_who_is_second_learns_who_was_first(operator: Client) -> None:
    operator.post("/pools/", {"name": "gpu", "capacity": "8"})
    first = operator.post("/pools/-/", {"size:gpu:1:8": "9"}, headers=FETCH).json()["done"]
    assert first == [{"field": "size", "pool": "gpu", "version": 2, "was": "8", "now": "9", "pin": ""}]
    response = operator.post("/pools/-/", {"size:gpu:1:8": "12"}, headers=FETCH)
    (conflict,) = response.json()["conflicts"]
    assert response.status_code == 412
    assert (conflict["now"], conflict["wanted"], conflict["actor"], conflict["version"]) == ("9", "12", "mara", 2)
    assert Pool.objects.get(name="gpu").capacity == 9


def test_what_one_act_changes_is_one_group_in_the_log_and_one_failure_stops_no_other(operator: Client) -> None:
    for name in ("a", "b"):
        operator.post("/pools/", {"name": name, "capacity": "8"})
    response = operator.post("/pools/-/", {"act": "pause", "pool": ["a", "gone", "b"]}, headers=FETCH)
    assert response.status_code == 200
    assert [done["pool"] for done in response.json()["done"]] == ["a", "b"]
    assert [problem["pool"] for problem in response.json()["problems"]] == ["gone"]
    assert Change.objects.filter(action="pause").values("request_id").distinct().count() == 1


def test_a_mistake_without_script_is_explained_on_the_page(operator: Client) -> None:
    response = operator.post("/pools/", {"name": "No Good", "capacity": "8"}, follow=True)
    assert b'class="notice notice-act"' in response.content


def test_the_words_of_the_script_have_an_address_that_changes_with_them(client: Client) -> None:
    english, chinese = client.get(f"/words/en.{digest('en')}.json"), client.get("/words/zh-hans.older.json")
    assert english.json()["starving"] == "is starving"
    assert chinese.json()["starving"] != english.json()["starving"]
    assert digest("en") != digest("zh-hans")
    assert "immutable" in english.headers["Cache-Control"]


def test_the_theme_is_kept_and_drawn_by_the_server(client: Client) -> None:
    assert client.post("/theme/", {"theme": "dark", "next": "/login/"}).headers["Location"] == "/login/"
    assert b'data-theme="dark"' in client.get("/login/").content
    client.post("/theme/", {"theme": '"><script>', "next": "//evil.example"})
    assert b'data-theme="dark"' in client.get("/login/").content


def test_the_language_can_be_switched(client: Client) -> None:
    assert b"Sign in" in client.get("/login/").content
    client.post("/i18n/setlang/", {"language": "zh-hans", "next": "/login/"})
    page = client.get("/login/").content.decode()
    assert '<html lang="zh-hans"' in page
    assert "登录" in page
