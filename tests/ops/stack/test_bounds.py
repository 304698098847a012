"""What `milena doctor` shows of the bounds: the documented defaults, and what a setting makes of them."""

from ops.stack.bounds import bounds


def test_the_documented_defaults_are_shown() -> None:
    shown = {finding.name.removeprefix("bound: "): finding.detail for finding in bounds({})}
    assert shown == {
        "body": "1,048,576 bytes",
        "stream buffer": "65,536 bytes a client",
        "results kept": "3,600 s",
        "request identities kept": "24 h after the end",
        "run": "600 s",
        "disconnect grace": "10 s",
        "queue wait": "15 s",
    }


def test_a_setting_shows() -> None:
    env = {"MILENA_EDGE_QUEUE_WAIT_MS_MAX": "70000"}
    assert {f.name: f.detail for f in bounds(env)}["bound: queue wait"] == "70 s"
