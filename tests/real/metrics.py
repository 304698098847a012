"""What a process tells about itself on its operator port."""

import httpx2
from prometheus_client.parser import text_string_to_metric_families


async def metric(operator_url: str, name: str, **labels: str) -> float:
    """The sum of all samples of this name with these labels; 0 where there is none yet."""
    async with httpx2.AsyncClient() as http:
        text = (await http.get(f"{operator_url}/metrics")).text
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
