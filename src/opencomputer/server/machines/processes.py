"""The processes of one machine, over its link."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from opencomputer.inside.guest import protocol
from opencomputer.inside.guest.protocol import JsonObject, ProtocolError
from opencomputer.server.contracts.machine import Attachment, ProcessRecord, ProcessSpec, TerminalSize
from opencomputer.server.domain.errors import GuestFault, InvalidInput
from opencomputer.server.machines.attachment import LinkAttachment
from opencomputer.server.machines.dozing import Dozing
from opencomputer.server.machines.link import Link
from opencomputer.server.machines.records import parse_record, spec_fields

_MOST_REQUEST_BYTES = protocol.MAX_REQUEST - 1024
_MOST_PAGES = 200


class LinkProcesses:
    """Implements `Processes`."""

    def __init__(self, link: Link, dozing: Dozing) -> None:
        self._link = link
        self._dozing = dozing

    async def spawn(self, spec: ProcessSpec) -> ProcessRecord:
        fields = spec_fields(spec)
        try:
            size = len(protocol.encode_json(fields))
        except (UnicodeEncodeError, ValueError) as error:
            raise InvalidInput("The command cannot be encoded.") from error
        if size > _MOST_REQUEST_BYTES:
            raise InvalidInput("Command and environment are too long.")
        return _record(await self._call("spawn", fields))

    def attach(
        self, process_id: str, *, offset: int | None = 0, counted: bool = False
    ) -> AbstractAsyncContextManager[Attachment]:
        return self._attach(LinkAttachment(process_id, offset=offset, counted=counted))

    async def get(self, process_id: str) -> ProcessRecord:
        return _record(await self._call("get", {"id": process_id}))

    async def list(self) -> Sequence[ProcessRecord]:
        records: list[ProcessRecord] = []
        for _ in range(_MOST_PAGES):
            page = await self._call("list", {"after": records[-1].id if records else None})
            try:
                found = protocol.items(page, "sessions")
                more = protocol.flag(page, "more")
                records.extend(parse_record(protocol.as_object(each)) for each in found)
            except ProtocolError as error:
                raise GuestFault("the guest's list of processes cannot be read") from error
            if not more or not found:
                return records
        raise GuestFault("the guest's list of processes does not end")

    async def signal(self, process_id: str, signal: int) -> None:
        if not 1 <= signal <= 64:
            raise InvalidInput("There is no such signal.")
        request = secrets.token_hex(8)
        await self._call("signal", {"id": process_id, "signal": signal, "request": request})

    async def resize(self, process_id: str, size: TerminalSize) -> None:
        await self._call("resize", {"id": process_id, "columns": size.columns, "rows": size.rows})

    async def label(self, process_id: str, labels: Mapping[str, str]) -> None:
        await self._call("label", {"id": process_id, "labels": dict(labels)})

    async def _call(self, operation: str, fields: JsonObject) -> JsonObject:
        async with self._dozing.awake():
            return await self._link.call(operation, fields)

    @asynccontextmanager
    async def _attach(self, attachment: LinkAttachment) -> AsyncGenerator[Attachment]:
        async with self._dozing.awake():
            await self._link.attach(attachment)
            try:
                yield attachment
            finally:
                self._link.release(attachment)
                attachment.let_go()


def _record(fields: JsonObject) -> ProcessRecord:
    try:
        return parse_record(fields)
    except ProtocolError as error:
        raise GuestFault("the guest's answer cannot be read") from error
