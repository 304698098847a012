"""The registry's HTTP interface, as far as we need it. Owns one client; decides nothing.

Speaks the Confluent interface (`/subjects`, `/schemas`, `/config`, `/mode`), and beside it the one
call by which Apicurio takes schemas under ids of our choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import httpx2 as httpx

from ops.schema_registry.names import in_full
from ops.schema_registry.wanted import Held, Subject, Version, parsed
from schemas.release import Release

ANSWER_S_MAX = 20.0
CCOMPAT_SUFFIX = "/apis/ccompat/"


class RegistryAway(Exception):
    """The registry does not answer; the message says where."""


class RegistryRefused(Exception):
    """The registry would not do it; the message has its reason."""


class RegistryClient:
    """One registry by the base URL of its Confluent interface."""

    def __init__(self, url: str, transport: httpx.BaseTransport | None = None) -> None:
        self.url = url.rstrip("/")
        self._http = httpx.Client(timeout=ANSWER_S_MAX, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def held(self, subjects: Iterable[Subject]) -> dict[str, Held]:
        """Those of the subjects that the registry has."""
        present = set(self._json("GET", "/subjects"))
        return {s.name: self._held(s.name) for s in subjects if s.name in present}

    def schema(self, schema_id: int) -> Any | None:
        """The schema under an id, parsed, or None where the id is free."""
        answer = self._ask("GET", f"{self.url}/schemas/ids/{schema_id}")
        if answer.status_code == 404:
            return None
        return parsed(self._checked(answer)["schema"])

    def register(
        self, subject: str, text: str, version: int | None = None, schema_id: int | None = None
    ) -> int:
        """Registers a version and gives its id. Only a registry in mode IMPORT obeys an asked id."""
        body: dict[str, Any] = {"schema": text}
        if schema_id is not None:
            body = {**body, "version": version, "id": schema_id}
        return int(self._json("POST", f"/subjects/{subject}/versions", body)["id"])

    def set_compatibility(self, subject: str, level: str) -> None:
        self._json("PUT", f"/config/{subject}", {"compatibility": level})

    def set_mode(self, subject: str, mode: str) -> bool:
        """False where this registry has no modes."""
        answer = self._ask("PUT", f"{self.url}/mode/{subject}", {"mode": mode})
        return answer.is_success

    def is_apicurio(self) -> bool:
        """Whether the import of `take` exists here."""
        if CCOMPAT_SUFFIX not in self.url:
            return False
        return self._ask("GET", f"{self._root()}/apis/registry/v3/system/info").is_success

    def take(self, archive: bytes) -> None:
        """Imports an Apicurio archive, content ids as they are in it."""
        url = f"{self._root()}/apis/registry/v3/admin/import?requireEmptyRegistry=false"
        headers = {
            "Content-Type": "application/zip",
            "X-Registry-Preserve-ContentId": "true",
            "X-Registry-Preserve-GlobalId": "false",
        }
        self._checked(self._ask("POST", url, content=archive, headers=headers))

    def _root(self) -> str:
        return self.url.split(CCOMPAT_SUFFIX)[0]

    def _held(self, subject: str) -> Held:
        versions = []
        for number in self._json("GET", f"/subjects/{subject}/versions"):
            one = self._json("GET", f"/subjects/{subject}/versions/{number}")
            versions.append(Version(one["version"], one["id"], parsed(one["schema"])))
        config = self._ask("GET", f"{self.url}/config/{subject}")
        level = config.json().get("compatibilityLevel") if config.is_success else None
        return Held(tuple(versions), level)

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self._checked(self._ask(method, f"{self.url}{path}", body))

    def _ask(
        self,
        method: str,
        url: str,
        body: Mapping[str, Any] | None = None,
        *,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        try:
            if body is not None:
                return self._http.request(method, url, json=body)
            return self._http.request(method, url, content=content, headers=headers)
        except httpx.HTTPError as error:
            raise RegistryAway(f"{type(error).__name__} at {self.url}") from error

    def _checked(self, answer: httpx.Response) -> Any:
        if answer.is_success:
            return answer.json() if answer.content else None
        if answer.status_code >= 500:
            raise RegistryAway(f"status {answer.status_code} at {self.url}")
        raise RegistryRefused(f"{answer.status_code}: {answer.text[:300]}")


def missing_ids(releases: Iterable[Release], client: RegistryClient) -> list[Release]:
    """Those whose id is free in the registry.

    Raises:
        RegistryRefused: an id is held by another schema.
    """
    free = []
    for release in releases:
        schema = client.schema(release.id)
        if schema is None:
            free.append(release)
        elif schema != in_full(release.schema):
            name = schema.get("name") if isinstance(schema, dict) else schema
            raise RegistryRefused(
                f"id {release.id} found for {name}, expected for {release.record}.v{release.version}"
            )
    return free
