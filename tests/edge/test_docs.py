"""The document of the API, and a page that shows it without another host."""

import json
import re

from tests.edge.world import World


async def test_the_document_is_whole(world: World) -> None:
    response = await world.client.get("/openapi.json")
    assert response.status_code == 200
    document = response.json()
    assert set(document["paths"]) == {
        "/v1/generations",
        "/v1/generations/{generation_id}",
        "/v1/generations/{generation_id}/stream",
        "/v1/generations/{generation_id}/cancel",
        "/v1/limits",
    }
    schemas = document["components"]["schemas"]
    request = schemas["GenerationRequest"]
    assert set(request["required"]) == {"model", "messages"}
    assert request["additionalProperties"] is False
    for reference in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)):
        assert reference in schemas
    create = document["paths"]["/v1/generations"]["post"]
    assert create["requestBody"]["content"]["application/json"]["example"]["stream"] is True
    assert "422" not in json.dumps(document["paths"])
    assert create["parameters"][0]["required"] is True


async def test_the_page_names_no_other_host(world: World) -> None:
    response = await world.client.get("/docs")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "://" not in response.text
