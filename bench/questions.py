"""Texts for the token benchmark, the same in every run: real prose, customers' questions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pydoc_data.topics import topics

QUESTIONS = 20_000
ASKED = 100_000
EXPONENT = 1.1
ONE_TIME = 1 / 3

OPENINGS = ("", "Hi, ", "Hello! ", "Good morning. ", "Sorry to ask again, but ", "Quick question: ", "URGENT: ")
FORMS = (
    "how do I {verb} my {thing} when {trouble}?",
    "why can't I {verb} the {thing}? It says {trouble}.",
    "is it possible to {verb} a {thing} that I bought in {month}, order {number}?",
    "my {thing} ({number}) arrived, but {trouble}. Can I {verb} it?",
    "what happens to my {thing} if I {verb} it after {trouble}?",
    "since {month} I have tried to {verb} {number} and {trouble}; who can help with the {thing}?",
)
VERBS = [
    "return",
    "cancel",
    "activate",
    "upgrade",
    "exchange",
    "track",
    "refund",
    "register",
    "pair",
    "renew",
    "transfer",
    "pause",
    "reset",
    "insure",
]
THINGS = [
    "router",
    "subscription",
    "invoice",
    "parcel",
    "headset",
    "contract",
    "gift",
    "card",
    "warranty",
    "account",
    "printer",
    "ticket",
    "password",
]
TROUBLES = (
    "the light keeps blinking red",
    "error 0x80070057 comes up",
    "nobody answers the phone",
    "the address is wrong",
    "the card was declined twice",
    "the old owner is still signed in",
    "it is out of stock",
    "the battery lasts an hour",
)
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def question(number: int) -> str:
    """One of the questions; different numbers give different ones."""
    pick = random.Random(number)
    form = pick.choice(FORMS).format(
        verb=pick.choice(VERBS),
        thing=pick.choice(THINGS),
        trouble=pick.choice(TROUBLES),
        month=pick.choice(MONTHS),
        number=f"{number:06d}-{pick.randrange(1000):03d}",
    )
    return pick.choice(OPENINGS) + (form if "{number}" in form else f"{form} (case {number})")


def asked(*, one_time: bool) -> Iterator[str]:
    """100,000 questions by Zipf's law over 20,000; with `one_time` a third of them are never asked again."""
    pick = random.Random(7)
    weights = [1 / rank**EXPONENT for rank in range(1, QUESTIONS + 1)]
    order = pick.sample(range(QUESTIONS), QUESTIONS)
    for place, rank in enumerate(pick.choices(range(QUESTIONS), weights, k=ASKED)):
        if one_time and pick.random() < ONE_TIME:
            yield question(1_000_000 + place)
        else:
            yield question(order[rank])


class Prose:
    """Real English prose without a network: what Python's own help knows of its topics, read on and on."""

    def __init__(self) -> None:
        self._text = "\n".join(topic for _, topic in sorted(topics.items()))
        self._place = 0

    def take(self, characters: int) -> str:
        """The next characters; after about 700,000 it begins anew."""
        parts: list[str] = []
        while characters:
            part = self._text[self._place : self._place + characters]
            parts.append(part)
            characters -= len(part)
            self._place = (self._place + len(part)) % len(self._text)
        return "".join(parts)
