"""The published SDK's stateful `Shell`."""

import asyncio

from checks import covers, main, raises

from opencomputer import ShellBusyError, ShellClosedError


@covers("A24")
async def a_shell_remembers_directory_variables_and_functions(sandbox):
    shell = await sandbox.exec.shell()
    await shell.run("cd /usr/lib; export COLOUR=red; greet() { echo hello $1; }")
    result = await shell.run('pwd; echo "$COLOUR"; greet you')
    assert (result.exit_code, result.stdout) == (0, "/usr/lib\nred\nhello you\n")
    await shell.close()


@covers("A24")
async def a_shell_takes_cwd_and_env(sandbox):
    shell = await sandbox.exec.shell(cwd="/tmp", env={"SHAPE": "square"})
    assert (await shell.run('echo "$SHAPE in $PWD"')).stdout == "square in /tmp\n"
    await shell.close()


@covers("A24")
async def each_run_has_its_exit_code_and_its_own_streams(sandbox):
    shell = await sandbox.exec.shell()
    first = await shell.run("echo a; echo b >&2; false")
    second = await shell.run("echo c")
    assert (first.exit_code, first.stdout, first.stderr) == (1, "a\n", "b\n")
    assert (second.exit_code, second.stdout, second.stderr) == (0, "c\n", "")
    await shell.close()


@covers("A24")
async def output_without_a_last_line_break_is_kept_as_it_is(sandbox):
    shell = await sandbox.exec.shell()
    result = await shell.run("printf 'no newline'; printf 'neither' >&2")
    assert (result.stdout, result.stderr) == ("no newline", "neither")
    await shell.close()


@covers("A24")
async def heredocs_of_every_kind_work_and_the_shell_goes_on(sandbox):
    shell = await sandbox.exec.shell()
    plain = await shell.run("cat <<EOF\nfirst $((1 + 1))\nEOF")
    quoted = await shell.run("cat <<'EOF'\n$HOME\nEOF")
    nested = await shell.run("cat <<A; cat <<B\nin a\nA\nin b\nB")
    string = await shell.run("cat <<< 'a string'")
    assert [each.stdout for each in (plain, quoted, nested, string)] == [
        "first 2\n",
        "$HOME\n",
        "in a\nin b\n",
        "a string\n",
    ]
    assert (await shell.run("echo still here")).stdout == "still here\n"
    await shell.close()


@covers("A24")
async def output_is_streamed_while_a_command_runs(sandbox):
    shell = await sandbox.exec.shell()
    stdout, stderr = [], []
    result = await shell.run("seq 1 2000; echo problem >&2", on_stdout=stdout.append, on_stderr=stderr.append)
    assert b"".join(stdout).decode() == result.stdout == "".join(f"{n}\n" for n in range(1, 2001))
    assert b"".join(stderr).decode() == result.stderr == "problem\n"
    await shell.close()


@covers("A24")
async def a_second_run_meanwhile_is_busy(sandbox):
    shell = await sandbox.exec.shell()
    running = asyncio.ensure_future(shell.run("sleep 2; echo first"))
    await asyncio.sleep(0)
    await raises(ShellBusyError, shell.run("echo second"))
    assert (await running).stdout == "first\n"
    await shell.close()


@covers("A24")
async def a_command_that_exits_closes_the_shell(sandbox):
    shell = await sandbox.exec.shell()
    await raises(ShellClosedError, shell.run("exit 3"))
    await raises(ShellClosedError, shell.run("echo more"))


@covers("A24")
async def a_closed_shell_runs_nothing(sandbox):
    shell = await sandbox.exec.shell()
    await shell.close()
    await raises(ShellClosedError, shell.run("echo more"))


@covers("A24")
async def closing_a_shell_ends_its_session(sandbox):
    shell = await sandbox.exec.shell()
    await shell.close()
    found = next(each for each in await sandbox.exec.list() if each.session_id == shell.session_id)
    assert (found.running, found.exit_code) == (False, 0)


@covers("A24")
async def a_shell_can_be_reattached(sandbox):
    shell = await sandbox.exec.shell()
    await shell.run("cd /var; MARK=kept; seq 1 500")
    again = await sandbox.exec.reattach_shell(shell.session_id)
    result = await again.run('echo "$PWD $MARK"')
    assert (result.exit_code, result.stdout) == (0, "/var kept\n")
    await again.close()


main()
