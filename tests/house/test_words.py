"""What tracked files may say: nothing of the machine they were made on, or of how they were made."""

import re
from pathlib import Path

from tests.house.source import ROOT, name, tracked

HERE = Path(__file__)
# Where a name would lead to a place this project must not depend on: spelled in halves, since this
# file is tracked as well.
DOWNLOAD_HOSTS = re.compile(
    "|".join(
        (
            r"pypi\." "org",
            r"python" r"hosted\." "org",
            r"repo1?\." r"maven",
            r"maven" r"central",
            r"npmjs\." "org",
            r"hugging" r"face\." "co",
            r"git" r"hub\." "com",
            r"proxy\." r"golang",
            r"deb" r"ian\." "org",
            r"crates\." "io",
            r"docker\." "io",
        )
    ),
    re.IGNORECASE,
)
MACHINE_PATHS = re.compile(r"(?<![\w.~-])/(?:wo" r"rk|ro" r"ot|ho" r"me/\w+|Us" r"ers)/")
OF_ITSELF = re.compile(
    "|".join(
        (
            r"\bsub-?" r"agents?\b",
            r"\bcoding " r"agents?\b",
            r"\bcl" r"aude\b",
            r"\bco" r"pilot\b",
            r"\blanguage model " r"wrote\b",
            r"\bthe b" r"rief\b",
            r"\bissue " r"#?\d+\b",
            r"\bthis s" r"ession\b",
            r"\bas an? a" r"i\b",
        )
    ),
    re.IGNORECASE,
)
URL = re.compile(r"https?://[^\s\"'`)>\]}]*")
URLS_ALLOWED = re.compile(
    r"https?://(?:127\.0\.0\.1|localhost|\[::1\]|\{|\$|%s|…|"
    r"(?:www\.)?w3\.org/|maven\.apache\.org/(?:POM/4\.0\.0|xsd/)|www\.apache\.org/licenses/|"
    r"\w\.\w/|(?:[\w-]+\.)*(?:invalid|example(?:\.(?:com|org|net))?)(?:[:/]|$)|(?:test|edge|registry)(?:[:/]|$)|$)"
)
LOCKS_AND_LICENCES = {"LICENSE", "requirements.txt"}


def found(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{name(path)}:{number}: {match.group()}"
        for path in paths
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        if (match := pattern.search(line))
    ]


def test_no_file_names_a_place_to_download_from() -> None:
    assert found(DOWNLOAD_HOSTS, tracked()) == []


def test_every_address_is_of_this_machine_or_a_name() -> None:
    complaints = [
        f"{name(path)}:{number}: {match.group()}"
        for path in tracked()
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        for match in URL.finditer(line)
        if path != HERE and not URLS_ALLOWED.match(match.group())
    ]
    assert complaints == []


def test_no_file_knows_the_machine_it_was_made_on() -> None:
    assert found(MACHINE_PATHS, [path for path in tracked() if path != HERE]) == []


def test_the_project_speaks_of_itself_alone() -> None:
    paths = [path for path in tracked() if path.name not in LOCKS_AND_LICENCES and path != HERE]
    assert found(OF_ITSELF, paths) == []


def test_the_rules_bite() -> None:
    assert MACHINE_PATHS.search("data in /root/x")
    assert not MACHINE_PATHS.search("see /usr/lib/jvm and framework/x and a/work/b")
    assert OF_ITSELF.search("a Subagent did")
    assert DOWNLOAD_HOSTS.search("from https://PyPI." + "org/simple")
    assert URLS_ALLOWED.match("http://127.0.0.1:8000/v1")
    assert not URLS_ALLOWED.match("https://some.where/else")


def test_the_root_of_the_project_is_where_it_seems() -> None:
    assert (ROOT / "pyproject.toml").is_file()
