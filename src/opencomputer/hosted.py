"""The records of hosted agents: what `HostedAgents` gives."""

from opencomputer.sdk.hosted.records import (
    ChannelChange,
    Entitlement,
    HostedAgent,
    HostedChannel,
    HostedEvent,
    HostedInstance,
    HostedLogs,
    HostedPackage,
    HostedResult,
    HostedSecret,
    HostedSession,
    Operation,
    PackageChange,
    ReplyPart,
)

__all__ = [
    "ChannelChange",
    "Entitlement",
    "HostedAgent",
    "HostedChannel",
    "HostedEvent",
    "HostedInstance",
    "HostedLogs",
    "HostedPackage",
    "HostedResult",
    "HostedSecret",
    "HostedSession",
    "Operation",
    "PackageChange",
    "ReplyPart",
]
