"""The page of tokens in a real Chromium: the playground, live numbers, what fails, both languages, phone and no script."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import OpenPage
from tests.dashboard.people import add_person, session_cookie, sign_in
from tests.dashboard.scenes import overflow
from tests.dashboard.test_axe import PHONE, WIDE, violations
from tests.relay_server import RelayServer
from tests.tokens.families import word_piece, written

TEXT = "Who holds the\tpermits?\n请用中文 👍🏽 answer"


def encoded(relay: RelayServer, text: str, **options: Any) -> dict[str, Any]:
    with relay.http() as api:
        answer = api.post("/api/v1/tokens/encode", json={"model": "gpt2", "text": text, "offsets": True, **options})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


def open_tokens(page: Page, relay: RelayServer, query: str = "", name: str = "admin", password: str = "") -> Page:
    sign_in(page, relay, name, password, path=f"/tokens/{query}")
    expect(page.locator("[data-strip]")).to_be_visible()
    return page


def play(page: Page, text: str, model: str = "gpt2") -> None:
    page.select_option("[name=model]", model)
    page.fill("[data-text]", text)
    expect(page.locator("[data-count]")).to_be_visible()
    expect(page.locator("[data-played]")).not_to_have_class(re.compile("is-busy"))


@contextmanager
def counting(relay: RelayServer) -> Iterator[None]:
    """Counts one text again and again until the block ends."""
    ended = threading.Event()

    def run() -> None:
        with relay.http() as api:
            while not ended.is_set():
                api.post("/api/v1/tokens/count", json={"model": "gpt2", "text": "the same again"})
                ended.wait(0.02)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    ended.set()
    thread.join()


def test_a_text_is_counted_while_it_is_typed_and_every_token_can_be_looked_at(
    relay: RelayServer, open_page: OpenPage
) -> None:
    page = open_tokens(open_page(), relay)
    expect(page.locator("[data-played]")).to_contain_text("Tokens appear here")
    play(page, TEXT)
    wanted = encoded(relay, TEXT)
    expect(page.locator("[data-count]")).to_have_text(str(wanted["count"]))
    assert [int(number) for number in page.locator(".tok small").all_inner_texts()] == wanted["ids"]
    expect(page.locator(".tok").nth(1)).to_contain_text("·holds")
    expect(page.locator(".toks")).to_contain_text("→")
    expect(page.locator(".toks")).to_contain_text("↵")
    page.locator(".tok").first.focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    start, end = wanted["offsets"][2]
    info = page.locator("[data-tokinfo]")
    expect(info).to_contain_text(f"token 3: id {wanted['ids'][2]}, characters {start} to {end}, ")
    page.locator(".tok").nth(4).hover()
    expect(info).to_contain_text(f"token 5: id {wanted['ids'][4]}")
    parts = [index for index in range(1, wanted["count"]) if wanted["offsets"][index] == wanted["offsets"][index - 1]]
    expect(page.locator(".tok").nth(parts[0]).locator(".part")).to_have_text(re.compile(r"^2/\d$"))


def test_what_was_counted_before_comes_from_the_cache(relay: RelayServer, open_page: OpenPage) -> None:
    page = open_tokens(open_page(), relay)
    text = "Never seen before on this page."
    play(page, text)
    expect(page.locator(".tok.lv-computed")).to_have_count(encoded(relay, text)["count"])
    page.keyboard.press("Control+Enter")
    expect(page.locator(".tok.lv-text")).to_have_count(encoded(relay, text)["count"])
    expect(page.locator(".toks-key")).to_contain_text("whole text")
    page.locator(".tok").first.hover()
    expect(page.locator("[data-tokinfo]")).to_contain_text("from the cache")


def test_of_an_edited_document_only_the_edited_part_is_computed(relay: RelayServer, open_page: OpenPage) -> None:
    page = open_tokens(open_page(), relay)
    lines = [f"In line {number} permits meet {number * 7919 % 9973} tokens.\n" for number in range(450)]
    reused = page.locator(".sums > div:nth-child(2) dd")
    play(page, "".join(lines))
    expect(reused).to_have_text(re.compile(r"^0 of"))
    lines[200] = "Another line than before.\n"
    page.fill("[data-text]", "".join(lines))
    expect(reused).to_have_text(re.compile(r"^[1-9]"))
    count, whole = (int(number.replace(",", "")) for number in reused.inner_text().split(" of "))
    assert encoded(relay, "".join(lines))["count"] == whole
    assert whole * 0.5 < count < whole
    page.locator(".tok.lv-computed").first.scroll_into_view_if_needed()
    expect(page.locator(".tok.lv-segment").first).to_be_attached()


def test_special_tokens_are_text_unless_they_are_parsed(relay: RelayServer, open_page: OpenPage) -> None:
    page = open_tokens(open_page(), relay)
    play(page, "<|endoftext|>")
    expect(page.locator("[data-count]")).to_have_text("7")
    page.get_by_label("parse special tokens in the text").check()
    expect(page.locator("[data-count]")).to_have_text("1")
    expect(page.locator(".tok small")).to_have_text("50256")


def test_a_large_text_is_counted_whole_and_shown_in_part(relay: RelayServer, open_page: OpenPage) -> None:
    page = open_tokens(open_page(), relay)
    text = "permits and tokens " * 3_000
    page.fill("[data-text]", text)
    expect(page.locator("[data-hint]")).to_contain_text("Press Count")
    page.get_by_role("button", name="Count", exact=True).click()
    expect(page.locator("[data-count]")).to_have_text(f"{encoded(relay, text)['count']:,}")
    expect(page.locator(".tok")).to_have_count(2_000)
    expect(page.locator(".more")).to_contain_text("The first 2,000 of")


def test_without_a_script_the_form_gives_the_same_page(relay: RelayServer, open_page: OpenPage) -> None:
    signed_in = open_tokens(open_page(), relay)
    page = open_page(java_script_enabled=False, storage_state=signed_in.context.storage_state())
    page.goto(f"{relay.url}/tokens/?range=7d")
    page.fill("[data-text]", "one\ntwo\n")
    page.get_by_role("button", name="Count", exact=True).click()
    wanted = encoded(relay, "one\ntwo\n")
    expect(page.locator("[data-count]")).to_have_text(str(wanted["count"]))
    expect(page.locator("[data-text]")).to_have_value("one\ntwo\n")
    assert page.locator(".tok").first.get_attribute("title") == (
        f"token 1: id {wanted['ids'][0]}, characters 0 to 3, computed now"
    ) or "from the cache" in str(page.locator(".tok").first.get_attribute("title"))
    page.fill("[data-text]", "")
    page.get_by_role("button", name="Count", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Type or paste a text first")
    page.goto(f"{relay.url}/tokens/")
    page.get_by_role("button", name="Try an example").click()
    expect(page.locator("[data-text]")).to_have_value(re.compile("night shift"))
    expect(page.locator(".sums")).to_be_visible()


def test_numbers_move_and_what_is_typed_stays(relay: RelayServer, open_page: OpenPage) -> None:
    page = open_tokens(open_page(), relay)
    play(page, "still here")
    page.locator("[data-text]").focus()
    page.evaluate("document.querySelector('[data-play]').dataset.mine = 'kept'")
    rate = page.locator('[data-live="requests"]')
    before = rate.inner_text()
    with counting(relay):
        expect(rate).not_to_have_text(before)
        expect(page.locator('tr[data-model="gpt2"] [data-cell="requests"]')).not_to_have_text("0")
        expect(page.locator('[data-level="text"] [data-share]')).to_have_text(re.compile(r"^\d"))
        # the server's own words come every five seconds; they are the same forms
        expect(page.locator("h1")).to_have_text(re.compile(r"Tokens flow, \d+ % from a cache"), timeout=15_000)
    expect(page.locator("[data-text]")).to_be_focused()
    expect(page.locator("[data-text]")).to_have_value("still here")
    expect(page.locator("[data-play]")).to_have_attribute("data-mine", "kept")


def test_a_model_that_fails_is_the_heading_until_it_is_gone(relay: RelayServer, open_page: OpenPage) -> None:
    page = open_tokens(open_page(), relay)
    expect(page.locator("[data-freeze] time")).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))
    model = {"name": "lost-model", "source": "path", "location": "/nowhere/at/all", "input_price": 2.5}
    with relay.http() as api:
        assert api.post("/api/v1/tokens/models", json=model).status_code == 201
        try:
            expect(page.locator("h1")).to_have_text("lost-model cannot be counted", timeout=15_000)
            expect(page).to_have_title("1 failed · Token Relay")
            row = page.locator('tr[data-model="lost-model"]')
            expect(row.locator(".badge")).to_have_text("Failed")
            expect(row).to_contain_text("/nowhere/at/all does not exist")
            expect(row).to_contain_text("$2.50")
            expect(row).to_contain_text("set by hand")
            row.get_by_role("link").click()
            expect(page.locator("[name=model]")).to_have_value("lost-model")
            page.fill("[data-text]", "hello")
            expect(page.get_by_role("alert")).to_contain_text("lost-model could not be loaded")
        finally:
            api.delete("/api/v1/tokens/models/lost-model")
    expect(page.locator('tr[data-model="lost-model"]')).to_have_count(0)
    expect(page.locator("h1")).not_to_contain_text("lost-model")


def test_an_admin_adds_a_model_and_sees_its_special_tokens(
    relay: RelayServer, open_page: OpenPage, tmp_path: Path
) -> None:
    folder = written(word_piece(), tmp_path / "minilm")
    page = open_tokens(open_page(), relay)
    page.get_by_text("Add a model").click()
    page.fill("#nm-n", "minilm")
    page.fill("#nm-l", str(tmp_path / "minilm"))
    page.fill("#nm-p", "-1")
    page.get_by_role("button", name="Add the model").click()
    expect(page.locator("[data-wrong]")).to_contain_text("input_price")
    page.fill("#nm-p", "0.02")
    page.get_by_role("button", name="Add the model").click()
    try:
        row = page.locator('tr[data-model="minilm"]')
        expect(row.locator(".badge")).to_have_text("Ready", timeout=20_000)
        expect(row).to_contain_text(str(folder))
        page.get_by_label("add special tokens").check()
        play(page, "hello, world", "minilm")
        expect(page.locator(".tok > span")).to_have_text(["[CLS]", "hello", ",", "world", "[SEP]"])
        expect(page.locator(".toks .gap")).to_have_text("·")
        expect(page.locator(".sums")).to_contain_text("$0.0000001")
        expect(page.locator(".play-price")).to_contain_text("$0.020 a million input tokens (set by hand, ")
    finally:
        with relay.http() as api:
            assert api.delete("/api/v1/tokens/models/minilm").status_code == 204


def test_the_range_stands_in_the_address(relay: RelayServer, open_page: OpenPage) -> None:
    page = open_tokens(open_page(), relay)
    page.get_by_role("link", name="7 d").click()
    expect(page).to_have_url(re.compile(r"\?range=7d$"))
    expect(page.locator("[data-strip]")).to_contain_text("last 7 days")
    page.go_back()
    expect(page.locator("[data-strip]")).to_contain_text("last 24 hours")
    page.goto(f"{relay.url}/tokens/?range=30d")
    expect(page.get_by_role("link", name="30 d")).to_have_attribute("aria-current", "true")


def test_use_comes_as_csv(relay: RelayServer) -> None:
    answer = httpx.get(
        f"{relay.url}/tokens/?format=csv", headers={"Cookie": session_cookie(relay)}, timeout=10, trust_env=False
    )
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.text.splitlines()[0] == "tenant,model,requests,tokens,reused_tokens,spent_s,saved_s,cost_usd"


def test_the_playground_says_what_it_cannot_take(relay: RelayServer) -> None:
    headers = {"Cookie": session_cookie(relay), "X-Requested-With": "fetch"}
    with httpx.Client(base_url=relay.url, headers=headers, trust_env=False, timeout=30) as browser:
        token = re.search(r'csrfmiddlewaretoken" value="(\w+)"', browser.get("/tokens/").text)
        assert token is not None
        browser.headers["Cookie"] += f"; csrftoken={browser.cookies['csrftoken']}"

        def ask(**fields: str) -> httpx.Response:
            form = {"csrfmiddlewaretoken": (None, token[1]), **{name: (None, value) for name, value in fields.items()}}
            return browser.post("/tokens/play/", files=form)

        unknown = ask(model="nobody", text="hello")
        assert unknown.status_code == 404
        assert "There is no model" in unknown.text
        long = ask(model="gpt2", text="世" * 400_001)
        assert long.status_code == 413
        assert "up to 400,000 characters" in long.text
        assert ask(model="gpt2", text="世" * 400_000).status_code == 200
        assert browser.get("/tokens/play/").headers["Location"] == "/tokens/"
        with relay.http() as api:
            guessed: dict[str, object] = {"name": "guessed", "source": "estimate", "location": "gpt2"}
            guessed |= {"estimate_factor": 1.2, "estimate_date": "2026-03-04"}
            assert api.post("/api/v1/tokens/models", json=guessed).status_code == 201
            try:
                assert "its counts are 1.2 times those of gpt2" in ask(model="guessed", text="hello").text
                assert "gpt2 times 1.2, measured 2026-03-04" in browser.get("/tokens/?fragment=1").text
            finally:
                api.delete("/api/v1/tokens/models/guessed")


def test_a_viewer_may_look_and_play(relay: RelayServer, open_page: OpenPage) -> None:
    add_person(relay, "tove", "viewer")
    page = open_tokens(open_page(), relay, name="tove", password="a password of my own")
    play(page, "hello")
    expect(page.locator("[data-count]")).to_have_text("1")
    expect(page.get_by_text("Add a model")).to_have_count(0)
    page.goto(f"{relay.url}/")
    page.get_by_role("link", name="Tokens").click()
    expect(page.get_by_role("link", name="Tokens")).to_have_attribute("aria-current", "page")
    assert httpx.get(f"{relay.url}/tokens/", trust_env=False).headers["Location"] == "/login/?next=/tokens/"


def test_chinese_leaves_nothing_in_english(relay: RelayServer, open_page: OpenPage) -> None:
    page = open_tokens(open_page(locale="zh-CN"), relay)
    play(page, "你好")
    page.locator(".tok").first.hover()
    page.get_by_text("作为请求").click()
    page.keyboard.press("?")
    text = page.evaluate(
        """() => {
            for (const node of document.querySelectorAll("pre, [data-rows]")) node.remove();
            return document.body.innerText;
        }"""
    )
    for allowed in ("Token Relay", "English", "Redis", "CSV", "API", "gpt2", "curl", "Ctrl", "Enter", "Esc", "admin"):
        text = text.replace(allowed, "")
    words = [word for word in text.split() if len(word) > 2 and word.isascii() and word.isalpha()]
    assert words == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_axe_finds_nothing_and_the_page_scrolls_in_one_direction_only(
    relay: RelayServer, open_page: OpenPage, theme: str, size: dict[str, int]
) -> None:
    page = open_tokens(open_page(color_scheme=theme, viewport=size), relay)
    assert violations(page) == []
    play(page, TEXT + "a_long_word_" * 40)
    page.get_by_text("As a table").click()
    page.get_by_text("As a request").click()
    page.locator(".tok").nth(2).click()
    assert violations(page) == []
    assert overflow(page) == 0
