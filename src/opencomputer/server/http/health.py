"""`/health`, `/healthz`, `/readyz`, `/metrics`: for operators, without a credential."""

from __future__ import annotations

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.responses import JSONResponse, PlainTextResponse, Response

from opencomputer.server.services.facade import Services

router = APIRouter()


@router.get("/health")
@router.get("/healthz")
async def alive() -> dict[str, str]:
    return {"status": "ok"}


@router.get("/readyz")
async def ready(request: Request) -> Response:
    """503 before the machines of an earlier process are adopted, and from the moment a stop begins."""
    if request.app.state.ready:
        return JSONResponse({"status": "ready"})
    return JSONResponse({"status": "not ready"}, 503, {"Retry-After": "1"})


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    return Response(generate_latest(request.app.state.metrics), media_type=CONTENT_TYPE_LATEST)


class SandboxCollector(Collector):
    """Figures that are read off the services when somebody asks."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def collect(self) -> list[GaugeMetricFamily]:
        running = GaugeMetricFamily("opencomputer_sandboxes_running", "Sandboxes this node runs")
        running.add_metric([], len(self._services.live))
        ready = GaugeMetricFamily(
            "opencomputer_pool_ready", "Machines ready to be claimed", labels=["template"]
        )
        for template, count in self._services.pool.sizes().items():
            ready.add_metric([template], count)
        return [running, ready]


def make_registry(services: Services) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(SandboxCollector(services))
    return registry
