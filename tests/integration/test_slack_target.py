"""Slack is told what Slack takes: one message per incident that stays current, and nothing but text in it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import hypothesis.strategies as st
from delivery_kit import Connectors, dispatching, message, new
from hypothesis import given

from kit.slack import TOKEN, FakeSlack, fake_slack
from lily.domain.deliveries import NewDelivery
from lily.domain.messages import Message
from lily.targets.slack_blocks import blocks_of, fallback


def bot(connectors: Connectors, slack: FakeSlack, **secrets: str) -> str:
    config = {"api_url": slack.api_url, "channel": "C0DATA"}
    return connectors.add("slack", config, **({"secret": TOKEN} | secrets))


def step(connector: str, outcome: str, state: str, incident: str = "i1") -> NewDelivery:
    said = message(
        f"Incident {outcome}: Freshness",
        change=f"incident.{outcome}",
        state=state,
        incident_id=incident,
        group_key=f"incident:{incident}",
        text=f"{outcome} by ada",
    )
    return new(connector, said=said)


def test_an_incident_is_one_message_that_stays_current_with_its_steps_in_the_thread(database: str) -> None:
    async def run() -> None:
        connectors = Connectors()
        with fake_slack() as slack:
            hook = bot(connectors, slack, signing_secret="s")
            steps = [
                step(hook, *each)
                for each in (("opened", "open"), ("acknowledged", "acknowledged"), ("resolved", "resolved"))
            ]
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(*steps)
                assert await dispatch.settled(steps) == ["delivered"] * 3
            [root] = slack.roots()
            assert "resolved" in root["blocks"][0]["text"]["text"]
            assert root["edits"] == 2
            buttons = [b for block in root["blocks"] if block["type"] == "actions" for b in block["elements"]]
            assert [button["action_id"] for button in buttons] == []
            replies = [each["text"] for each in slack.messages() if each.get("thread_ts") == root["ts"]]
            assert replies == ["acknowledged: acknowledged by ada", "resolved: resolved by ada"]

    asyncio.run(run())


def test_an_open_incident_has_a_button_only_where_slack_can_answer(database: str) -> None:
    async def run() -> None:
        connectors = Connectors()
        with fake_slack() as slack:
            told = [
                step(bot(connectors, slack, signing_secret="s"), "opened", "open", "i1"),
                step(bot(connectors, slack), "opened", "open", "i2"),
            ]
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(*told)
                await dispatch.settled(told)
            buttons = [
                (button["action_id"], button["value"])
                for root in slack.roots()
                for block in root["blocks"]
                if block["type"] == "actions"
                for button in block["elements"]
            ]
            assert buttons == [("lily.acknowledge", "i1"), ("lily.snooze", "incident:i1")]

    asyncio.run(run())


def test_the_card_has_what_people_need_and_three_buttons() -> None:
    fields = (("Owner", "ada"), ("Rule", "at least 100 rows"), ("Blast radius", "12 downstream"))
    said = message(
        "Incident opened: Volume on orders",
        incident_id="i1",
        fields=fields,
        event_id="0198a7a0",
        link="https://lily.example/lily/v1/incidents/i1",
    )
    header, facts, context, actions = blocks_of(said, datetime(2026, 1, 1, tzinfo=UTC), with_button=True)
    assert header["text"]["text"] == "🔴 Incident opened: Volume on orders"
    assert [each["text"] for each in facts["fields"]] == [f"*{name}*\n{value}" for name, value in fields]
    reason, told = (each["text"] for each in context["elements"])
    assert reason == said.reason
    assert told == "2026-01-01 00:00:00 UTC · incident.opened · event 0198a7a0"
    assert [each["text"]["text"] for each in actions["elements"]] == ["Open", "Acknowledge", "Snooze 1 h"]


def test_a_storm_of_one_cause_is_one_message(database: str) -> None:
    async def run() -> None:
        connectors = Connectors()
        with fake_slack() as slack:
            hook = bot(connectors, slack)
            said = message(change="tags.changed", state="", group_key="tags:cause")
            told = [
                new(hook, said=replace(said, title=f"Tags of t{n}: +pii", asset_id=f"t{n}", count=n + 1))
                for n in range(6)
            ]
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(*told)
                assert await dispatch.settled(told) == ["delivered"] * 6
            [root] = slack.messages()
            assert root["edits"] >= 1

    asyncio.run(run())


def test_what_slack_took_without_answering_is_not_posted_again(database: str) -> None:
    async def run() -> None:
        connectors = Connectors()
        with fake_slack() as slack:
            told = step(bot(connectors, slack), "opened", "open")
            async with dispatching(database, connectors) as dispatch:
                slack.lose_answers = 1
                await dispatch.enqueue(told)
                row = await dispatch.attempted(told, 1)
                # An answer 504 may mean either: as after a kill, it is uncertain whether Slack has it.
                assert (row["status"], row["log"][0]["status"]) == ("pending", 504)
                dispatch.execute("UPDATE deliveries SET is_uncertain = true")
                dispatch.make_due()
                assert await dispatch.settled([told]) == ["delivered"]
            assert len(slack.messages()) == 1

    asyncio.run(run())


def test_a_throttled_channel_is_waited_for_and_order_stays(database: str) -> None:
    async def run() -> None:
        connectors = Connectors()
        with fake_slack() as slack:
            hook = connectors.add("slack", {}, secret=slack.hook_url)
            slack.throttle = [1, 1]
            told = [new(hook, said=message(str(number))) for number in range(4)]
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(*told)
                assert await dispatch.settled(told) == ["delivered"] * 4
                assert [row["failures"] for row in dispatch.rows()] == [0] * 4
            titles = [each["blocks"][0]["text"]["text"] for each in slack.messages()]
            assert titles == [f"🔴 {number}" for number in range(4)]

    asyncio.run(run())


def test_a_removed_webhook_switches_the_connector_off(database: str) -> None:
    async def run() -> None:
        connectors = Connectors()
        with fake_slack() as slack:
            hook = connectors.add("slack", {}, secret=slack.hook_url)
            slack.removed = True
            told = new(hook)
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(told)
                assert await dispatch.settled([told]) == ["dead"]
            assert connectors.is_disabled(hook)

    asyncio.run(run())


def test_an_unknown_channel_is_a_dead_letter_at_once_with_slacks_word_for_it(database: str) -> None:
    async def run() -> None:
        connectors = Connectors()
        with fake_slack() as slack:
            told = new(bot(connectors, slack), channel="C0NOWHERE")
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(told)
                assert await dispatch.settled([told]) == ["dead"]
                assert dispatch.row(told)["error"] == "Slack: channel_not_found"

    asyncio.run(run())


INJECTIONS = (
    "<!channel> <!here> <@U123> <#C123|general>",
    "<https://evil.example|click>",
    "&lt;!channel&gt; & co",
    "@channel @here #general https://evil.example",
    "*bold* _x_ ~y~ `code` ```block``` >quote",
    'a"}],"blocks":[{"type":"section"',
    "line\nbreak\r\u2028x\x00\x1b[31m",
    "x" * 5000,
    "&" * 5000,
    "",
)


def test_whatever_names_and_words_say_stays_text(database: str) -> None:
    async def run() -> None:
        connectors = Connectors()
        with fake_slack() as slack:
            hook = bot(connectors, slack, signing_secret="s")
            told = [new(hook, said=hostile(text)) for text in INJECTIONS]
            async with dispatching(database, connectors) as dispatch:
                await dispatch.enqueue(*told)
                assert await dispatch.settled(told) == ["delivered"] * len(INJECTIONS)
            assert slack.mentions == []
            assert "<" not in json.dumps(slack.messages(), ensure_ascii=False)
            assert len(slack.roots()) == len(INJECTIONS)

    asyncio.run(run())


def hostile(text: str) -> Message:
    return Message(
        title=text,
        text=text,
        severity=text,
        change="incident.opened",
        state="open",
        reason=text,
        group_key=text,
        fields=tuple((text, text) for _ in range(12)),
        asset_id=text or None,
        asset_name=text,
        incident_id=text.replace("<", "")[:50],
        link=text,
    )


@given(st.text(), st.text(), st.lists(st.tuples(st.text(), st.text()), max_size=15))
def test_slack_takes_every_message(title: str, text: str, fields: list[tuple[str, str]]) -> None:
    said = message(
        title, text=text * 40, fields=tuple(fields), reason=title * 40, incident_id="i", asset_id=text
    )
    slack = FakeSlack.__new__(FakeSlack)  # its rules alone, without a server
    blocks = blocks_of(said, datetime.now(UTC), with_button=True)
    assert slack._problem({"text": fallback(said), "blocks": blocks}) == ""
    assert "<" not in json.dumps(blocks, ensure_ascii=False)


def test_ids_are_those_of_subscription_and_cause() -> None:
    cause, connector = str(uuid4()), str(uuid4())
    assert new(connector, cause).delivery_id == new(str(uuid4()), cause).delivery_id
    assert new(connector, cause).delivery_id != replace(new(connector, cause), tenant_id="b").delivery_id
    assert "." not in str(new(connector, cause).delivery_id)
