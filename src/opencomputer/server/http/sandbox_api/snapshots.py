"""`/api/snapshots` and `/api/images`: what sandboxes can be started from besides templates."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import JSONResponse, Response

from opencomputer.server.contracts.images import ImageRow, NamedSnapshot
from opencomputer.server.domain.errors import InvalidInput, NotFound
from opencomputer.server.http.auth import Key, ServicesOf
from opencomputer.server.http.body import json_body
from opencomputer.server.http.sse import BuildStream, wants_stream
from opencomputer.server.services.sandboxes.build_log import Listener, nobody
from opencomputer.wire.images import BuildImage, CreateSnapshot, ImageView, PublishedView
