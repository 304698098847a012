"""Three registries in memory, by how they give ids: Apicurio, Confluent's, and one without modes.

As found on the real Apicurio 3.3.3: it accepts a mode and ignores asked ids, one id is one text, a
registration of a known text burns an id, and an import skips without a word what it cannot take.
"""

import io
import json
import zipfile
from enum import Enum
from typing import Any

import httpx2 as httpx

URL = "http://registry:8081/apis/ccompat/v7"


class Kind(Enum):
    """Whose manners."""

    APICURIO = "apicurio"
    CONFLUENT = "confluent"
    PLAIN = "plain"


class RegistryDouble:
    """`transport` goes into a client. `writes` counts what changed something."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.contents: dict[int, str] = {}
        self.subjects: dict[str, list[int]] = {}
        self.levels: dict[str, str] = {}
        self.modes: dict[str, str] = {}
        self.writes = 0
        self.away = False
        self._next = 1
        self._orphans: set[int] = set()

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if self.away:
            raise httpx.ConnectError("refused", request=request)
        path = request.url.path.split("/apis/ccompat/v7")[-1]
        self.writes += request.method != "GET"
        parts = path.strip("/").split("/")
        if path.startswith("/apis/registry/v3"):
            return self._own(request, path)
        match request.method, parts:
            case "GET", ["subjects"]:
                return httpx.Response(200, json=list(self.subjects))
            case "GET", ["subjects", subject, "versions"]:
                return httpx.Response(200, json=self._versions(subject))
            case "GET", ["subjects", subject, "versions", number]:
                return self._version(subject, int(number))
            case "POST", ["subjects", subject, "versions"]:
                return self._register(subject, json.loads(request.content))
            case "GET", ["schemas", "ids", number]:
                return self._by_id(int(number))
            case method, ["config", subject]:
                return self._config(method, subject, request)
            case "PUT", ["mode", subject] if self.kind is not Kind.PLAIN:
                self.modes[subject] = json.loads(request.content)["mode"]
                return httpx.Response(200, json={"mode": self.modes[subject]})
            case _:
                return httpx.Response(404, json={"error_code": 404})

    def _own(self, request: httpx.Request, path: str) -> httpx.Response:
        if self.kind is not Kind.APICURIO:
            return httpx.Response(404)
        if path.endswith("/system/info"):
            return httpx.Response(200, json={"version": "3.3.3"})
        assert request.headers["X-Registry-Preserve-ContentId"] == "true"
        assert request.url.params["requireEmptyRegistry"] == "false"
        with zipfile.ZipFile(io.BytesIO(request.content)) as archive:
            assert json.loads(archive.read("manifest-1.Manifest.json"))["systemVersion"]
            for name in archive.namelist():
                if name.endswith(".Content.json"):
                    data = archive.read(name.replace(".json", ".data")).decode()
                    self._import(json.loads(archive.read(name))["contentId"], data)
        return httpx.Response(204)

    def _import(self, content_id: int, text: str) -> None:
        if content_id not in self.contents and text not in self.contents.values():
            self.contents[content_id] = text
            self._orphans.add(content_id)
            self._next = max(self._next, content_id + 1)

    def _versions(self, subject: str) -> list[int]:
        return list(range(1, len(self.subjects[subject]) + 1))

    def _version(self, subject: str, number: int) -> httpx.Response:
        given = self.subjects[subject][number - 1]
        return httpx.Response(
            200,
            json={
                "subject": subject,
                "version": number,
                "id": given,
                "schema": _respelled(self.contents[given]),
            },
        )

    def _by_id(self, number: int) -> httpx.Response:
        if number in self.contents and number not in self._orphans:
            return httpx.Response(200, json={"schema": _respelled(self.contents[number])})
        return httpx.Response(404, json={"error_code": 40403})

    def _register(self, subject: str, body: dict[str, Any]) -> httpx.Response:
        text = body["schema"]
        known = next((number for number, held in self.contents.items() if held == text), None)
        importing = self.modes.get(subject) == "IMPORT" and self.kind is Kind.CONFLUENT
        if importing:
            given = body["id"]
            assert body["version"] == len(self.subjects.get(subject, [])) + 1
        else:
            given = known if known is not None else self._next
        if known is None or (self.kind is Kind.APICURIO and given not in self._orphans):
            self._next = max(self._next, given) + 1
        self.contents.setdefault(given, text)
        self._orphans.discard(given)
        versions = self.subjects.setdefault(subject, [])
        if given not in versions:
            versions.append(given)
        return httpx.Response(200, json={"id": given})

    def _config(self, method: str, subject: str, request: httpx.Request) -> httpx.Response:
        if method == "PUT":
            self.levels[subject] = json.loads(request.content)["compatibility"]
            return httpx.Response(200, json={"compatibility": self.levels[subject]})
        if subject not in self.levels:
            return httpx.Response(404, json={"error_code": 40408})
        return httpx.Response(200, json={"compatibilityLevel": self.levels[subject]})


def _respelled(text: str) -> str:
    """As Apicurio answers: inner namespaces left out where they are inherited."""

    def inner(node: Any, namespace: str) -> Any:
        if isinstance(node, list):
            return [inner(item, namespace) for item in node]
        if isinstance(node, dict):
            own = node.get("namespace", namespace)
            kept = {k: v for k, v in node.items() if k != "namespace" or v != namespace}
            return {k: inner(v, own) if k in {"type", "items", "fields"} else v
                    for k, v in kept.items()}  # fmt: skip
        return node

    return json.dumps(inner(json.loads(text), ""))
