"""What a new sandbox gets of secret stores: those it inherits, by name, and the one its maker names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from opencomputer.server.contracts.secrets import HoldingRows
from opencomputer.server.domain.errors import InvalidInput
from opencomputer.server.domain.secrets import Sealing, chained, seal
from opencomputer.wire.ids import OrgId, SandboxId


@dataclass(frozen=True)
class SealingRequest:
    """`inherited` are names of stores, weakest first. `plain` are variables that win over secrets.

    `copied_from` is the sandbox whose memory the new one goes on with: its tokens are known in there.
    """

    named: str | None = None
    inherited: Sequence[str] = ()
    plain: Collection[str] = ()
    copied_from: SandboxId | None = None

    @property
    def chain(self) -> tuple[str, ...]:
        return chained(self.inherited, self.named)


class Sealings:
    def __init__(self, holdings: HoldingRows) -> None:
        self._holdings = holdings

    async def seal(self, org_id: OrgId, request: SealingRequest) -> Sealing:
        """Tokens for a new sandbox. Raises InvalidInput when the store its maker names does not exist.

        One that is only inherited and exists no more is left out, with a warning.
        """
        if not request.chain:
            return Sealing()
        layers = await self._holdings.layers(org_id, request.chain)
        missing = set(request.chain) - {layer.store.name for layer in layers}
        if request.named in missing:
            raise InvalidInput(
                f"secretStore: there is no secret store {request.named!r}", field="secretStore"
            )
        copied = () if request.copied_from is None else await self._holdings.seals(request.copied_from)
        made = seal(layers, request.plain, copied)
        skipped = [
            f"secret store {name!r}, which this would inherit, does not exist any more"
            for name in request.chain
            if name in missing
        ]
        return replace(made, warnings=(*skipped, *made.warnings))
