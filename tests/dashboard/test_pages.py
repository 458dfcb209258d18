"""Login, rights and forms, through Django's own stack; this process serves no engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard import views
from dashboard.attempts import MAX_BY_NAME, Attempts
from relay.permits.models import Pool
from relay.tenants.models import Change

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fresh_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "attempts", Attempts())


@pytest.fixture
def operator(client: Client) -> Iterator[Client]:
    client.force_login(User.objects.create_superuser("mara", "", "a long password"))
    return client


@pytest.fixture
def viewer(client: Client) -> Iterator[Client]:
    client.force_login(User.objects.create_user("vic", "", "a long password"))
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
        ({"by": "1", "shown": "8", "capacity": "8"}, 9),
        ({"by": "-1", "shown": "8", "capacity": "8"}, 7),
        ({"shown": "8", "capacity": "20"}, 20),
    ],
)
def test_the_stepper_steps_from_what_was_shown_and_takes_a_number(
    operator: Client, form: dict[str, str], capacity: int
) -> None:
    operator.post("/pools/", {"name": "gpu", "capacity": "8"})
    assert operator.post("/pools/gpu/capacity/", form).status_code == 302
    assert Pool.objects.get(name="gpu").capacity == capacity


@pytest.mark.parametrize("capacity", ["0", "-3", "many", "", "1.5", "²", "99999999999"])
def test_a_wrong_capacity_changes_nothing_and_is_explained_to_the_script(operator: Client, capacity: str) -> None:
    operator.post("/pools/", {"name": "gpu", "capacity": "8"})
    response = operator.post("/pools/gpu/capacity/", {"capacity": capacity}, headers={"X-Requested-With": "fetch"})
    assert (response.status_code, response.json()["code"]) == (400, "invalid")
    assert Pool.objects.get(name="gpu").capacity == 8


def test_a_mistake_without_script_is_explained_on_the_page(operator: Client) -> None:
    response = operator.post("/pools/", {"name": "No Good", "capacity": "8"}, follow=True)
    assert b'class="notice"' in response.content


def test_a_viewer_may_look_and_not_change(viewer: Client) -> None:
    response = viewer.post("/pools/", {"name": "gpu", "capacity": "8"}, headers={"X-Requested-With": "fetch"})
    assert (response.status_code, response.json()["code"]) == (403, "forbidden")
    assert not Pool.objects.exists()


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
