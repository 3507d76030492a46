#!/usr/bin/env python3
"""The hook in the real bash, zsh and fish, each on a terminal of its own: tests/hook.py [cudarun]

What is typed is typed as a person would; after each line the shell computes a marker, so that all that came before it is
of that line and of the prompt after it. Needs bash, zsh, fish, direnv, zoxide, strace.
"""
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
CUDARUN = os.path.realpath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "../target/release/cudarun"))
SHELLS = {
    "bash": dict(start=["bash", "-i"], rc=".bashrc", marker="echo __$((40 + 2))__", status="$?"),
    "zsh": dict(start=["zsh", "-i"], rc=".zshrc", marker="echo __$((40 + 2))__", status="$?"),
    "fish": dict(start=["fish", "-i"], rc=".config/fish/config.fish", marker="echo __(math 40 + 2)__", status="$status"),
}
# The tests use the line of the documentation for the start-up file.
with open(os.path.join(HERE, "../docs/hook.md")) as page:
    for shell, line in re.findall(r"```(bash|zsh|fish)\n(.*?\n)```", page.read(), re.DOTALL):
        with open(os.path.join(HERE, "../README.md")) as readme:
            assert shell != "bash" or line in readme.read()
        SHELLS[shell]["hook"] = line.replace("{", "{{").replace("}", "}}").replace("cudarun hook ", "cudarun hook {options}")
# zsh runs without its line editor, whose redrawing would disturb the output. fish runs without a greeting, and with a
# prompt that starts no process.
QUIET = {"bash": "", "zsh": "unsetopt zle prompt_cr prompt_sp\n", "fish": "set -g fish_greeting\nfunction fish_prompt; echo -n \"> \"; end\n"}
HOSTILE = ["two words", "it's", 'a "quote"', "$(touch pwned)", "`touch pwned`", "line\nbreak", "bold\x1b[1mname", "-dash", "*", "back\\slash", "é 日本", ";touch pwned;"]
failures = []
checks = 0


def check(holds, what):
    global checks
    checks += 1
    if not holds:
        failures.append(what)
        print(f"FAILS {what}", flush=True)


class Home:
    """A home with a start-up file for each shell, and the binary on PATH."""

    def __init__(self):
        self.path = os.path.realpath(tempfile.mkdtemp(prefix="hook-"))
        os.makedirs(self.at("bin"))
        os.makedirs(self.at(".config/fish"))
        os.symlink(CUDARUN, self.at("bin/cudarun"))

    def at(self, below):
        return os.path.join(self.path, below)

    def project(self, below, text='[env]\nFOO = "bar"\n'):
        os.makedirs(self.at(below), exist_ok=True)
        with open(os.path.join(self.at(below), ".cudarun.toml"), "w") as file:
            file.write(text)
        return self.at(below)

    def environment(self):
        path = f"{self.at('bin')}:/usr/local/bin:/usr/bin:/bin"
        return {"HOME": self.path, "ZDOTDIR": self.path, "PATH": path, "TERM": "dumb", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "SHELL": "/bin/sh"}

    def close(self):
        shutil.rmtree(self.path)


class Shell:
    """One shell on a terminal."""

    def __init__(self, name, home, before="", after="", options="", hook=True, env=None, under=()):
        self.name, self.home, self.how = name, home, SHELLS[name]
        rc = QUIET[name] + before + (self.how["hook"].format(options=options) if hook else "") + after
        with open(home.at(self.how["rc"]), "w") as file:
            file.write(rc)
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.chdir(home.path)
            arguments = [*under, *self.how["start"]]
            os.execvpe(arguments[0], arguments, {**home.environment(), **(env or {})})
        self.pid = pid
        self.started = self.type("")

    def type(self, line):
        """What a line, and the prompt after it, bring onto the screen."""
        text = f"{line}\n{self.how['marker']}\n" if line else f"{self.how['marker']}\n"
        os.write(self.terminal, text.encode())
        seen, end = b"", time.monotonic() + 30
        while b"__42__" not in seen:
            if not select.select([self.terminal], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"{self.name}: `{line}`: {seen!r}")
            try:
                seen += os.read(self.terminal, 65536)
            except OSError:
                raise EOFError(f"{self.name} has ended at `{line}`: {seen!r}") from None
        return re.sub(r"\x1b\[\?2004[hl]|\r", "", seen.decode(errors="replace"))

    def told(self, line):
        """The lines of cudarun's among that."""
        return [it[it.index("cudarun: "):] for it in self.type(line).split("\n") if re.search(r"(^|[^`'\"\w/])cudarun: ", it)]

    def quoted(self, path):
        if self.name == "fish":
            return "'" + path.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + path.replace("'", "'\\''") + "'"

    def close(self):
        os.write(self.terminal, b"exit\n")
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                if not os.read(self.terminal, 65536):
                    break
            except OSError:
                break
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


def walks(name):
    home = Home()
    one, two = home.project("one"), home.project("two")
    os.makedirs(os.path.join(one, "deep/er"))
    os.makedirs(home.at("plain"))
    shell = Shell(name, home)
    check(not shell.told("true"), f"{name}: silent outside of projects")
    first = shell.told(f"cd {one}")
    check(len(first) == 1 and f"{one}/.cudarun.toml: not allowed yet: it sets `env.FOO`; read it, then `cudarun allow {one}/.cudarun.toml`" in first[0], f"{name}: {first}")
    for line in ["cd deep", "cd er", "cd ../..", "true", "cd ..", "cd -", "pushd /", "popd", "cd ~/plain", f"cd {one}/deep/er"]:
        told = shell.told(line)
        check(not told, f"{name}: `{line}` says nothing new: {told}")
    check(len(shell.told(f"cd {two}")) == 1, f"{name}: another project")
    with open(os.path.join(one, ".cudarun.toml"), "a") as file:
        file.write("# changed\n")
    check(not shell.told(f"cd {one}"), f"{name}: changed, and what is wrong is the same")
    with open(os.path.join(one, ".cudarun.toml"), "w") as file:
        file.write("[env]\nBAR = \"foo\"\n")
    shell.type("cd ..")
    check(len(shell.told(f"cd {one}")) == 1, f"{name}: another thing is wrong")
    shell.type("cudarun -q allow")
    shell.type("cd ..")
    check(not shell.told(f"cd {one}"), f"{name}: all is well")
    # By a link from elsewhere: where it leads to counts, as it does for cudarun.
    linked = home.project("real/project") + "/deep"
    os.makedirs(linked)
    os.symlink(linked, home.at("plain/link"))
    check(len(shell.told("cd ~/plain/link")) == 1, f"{name}: entered by a link")
    shell.type("cd ~/plain")
    shutil.rmtree(one)
    seen = shell.type("true") + shell.type("cd .")
    check("cudarun" not in seen.replace(f"{one}", ""), f"{name}: the project is gone: {seen}")
    shell.type("cd ~/plain")
    # Nothing in a subshell, a command substitution or a script, whatever start-up file it reads.
    subshell = f"begin; cd {two}; end | cat" if name == "fish" else f"(cd {two}; true)"
    check(not shell.told(f"cd ~; {subshell}"), f"{name}: a subshell")
    script = [name, "-c", f"cd {two}"]
    env = {**home.environment(), "BASH_ENV": home.at(".bashrc"), "ENV": home.at(".bashrc")}
    done = subprocess.run(script, env=env, cwd=home.path, capture_output=True, text=True)
    check((done.stdout, done.stderr, done.returncode) == ("", "", 0), f"{name}: a script: {done}")
    check(not shell.told("set -e CUDARUN_HOOK; set -gx CUDARUN_HOOK off" if name == "fish" else "export CUDARUN_HOOK=off"), name)
    os.makedirs(home.at("three"))
    three = home.project("three")
    check(not shell.told(f"cd {three}"), f"{name}: off")
    shell.close()
    home.close()


def names(name):
    home = Home()
    shell = Shell(name, home)
    for index, hostile in enumerate(HOSTILE):
        below = f"{index}/{hostile}"
        path = home.project(below)
        if "\n" in hostile:
            # A terminal would take the line's end for the end of what is typed.
            link = home.at(f"{index}/link")
            os.symlink(path, link)
            told = shell.told(f"cd -P {link}" if name != "fish" else f"cd (path resolve {link} | string collect)")
        else:
            # An escape code would be read by the shell's line editor.
            line = f"cd {home.at(str(index))}/bold*" if "\x1b" in hostile else f"cd -- {shell.quoted(path)}"
            told = shell.told(line)
        check(len(told) == 1 and "not allowed yet" in told[0], f"{name}: {hostile!r}: {told}")
        check("\x1b" not in "".join(told), f"{name}: {hostile!r} reaches the terminal")
    found = subprocess.run(["find", home.path, "-name", "pwned"], capture_output=True, text=True).stdout
    check(not found, f"{name}: {found} was made")
    shell.close()
    home.close()


def others(name):
    """What others have set is run, sees the status of what was typed, and is seen."""
    before = {
        "bash": "theirs() { local status=$?; echo \"theirs-$status\"; return $status; }\nPROMPT_COMMAND='theirs; '\n",
        "zsh": "theirs() { echo \"theirs-$?\" }\nlater() { echo later-$? }\nprecmd_functions=(theirs)\nchpwd() { echo moved }\n",
        "fish": "function theirs --on-event fish_prompt; echo theirs-$status; end\nfunction moved --on-variable PWD; echo moved; end\n",
    }[name]
    after = {"bash": "PROMPT_COMMAND=\"$PROMPT_COMMAND; echo after-\\$?\"\n", "zsh": "precmd_functions+=(later)\n", "fish": ""}[name]
    home = Home()
    project = home.project("project")
    shell = Shell(name, home, before, after)
    seen = shell.type(f"cd {project}")
    check("theirs-0" in seen and "not allowed yet" in seen, f"{name}: beside another's: {seen}")
    check(name == "bash" or "moved" in seen, f"{name}: what is called on a change: {seen}")
    status = shell.how["status"]
    seen = shell.type("sh -c 'exit 7'")
    check("theirs-7" in seen, f"{name}: the status that others see: {seen}")
    check("after-7" in seen if name == "bash" else name == "fish" or "later-7" in seen, f"{name}: the status after the hook: {seen}")
    os.write(shell.terminal, b"sh -c 'exit 7'\n")
    seen = shell.type(f"echo status-{status}")
    check("status-7" in seen, f"{name}: the status of a line: {seen}")
    os.write(shell.terminal, f"cd ..\ncd {project}; sh -c 'exit 7'\n".encode())
    check("status-7" in shell.type(f"echo status-{status}"), f"{name}: the status where the hook has asked")
    shell.close()

    # With the hooks of direnv and zoxide, in both orders.
    beside = {
        "bash": 'eval "$(direnv hook bash)"\neval "$(zoxide init bash)"\n',
        "zsh": 'eval "$(direnv hook zsh)"\neval "$(zoxide init zsh)"\n',
        "fish": "direnv hook fish | source\nzoxide init fish | source\n",
    }[name]
    for order in ["before", "after"]:
        place = home.project(f"with-{order}")
        with open(os.path.join(place, ".envrc"), "w") as file:
            file.write("export OF_DIRENV=yes\n")
        subprocess.run(["direnv", "allow", place], env=home.environment(), check=True)
        shell = Shell(name, home, **{order: beside})
        told = shell.told(f"cd {place}")
        check(len([it for it in told if "not allowed yet" in it]) == 1, f"{name}: direnv and zoxide {order}: {told}")
        check("of-yes" in shell.type('echo "of-$OF_DIRENV"'), f"{name}: direnv works, {order}")
        check("with-" in shell.type("cd ~; zoxide query with"), f"{name}: zoxide works, {order}")
        check("no note" in shell.type("cudarun --version; echo no' 'note") and "never runs" not in shell.started, name)
        shell.close()
    home.close()


def strict(name):
    if name == "fish":
        return
    home = Home()
    project = home.project("project")
    for when in ["before", "after"]:
        shell = Shell(name, home, **{when: "set -eu\n"}, env={"CUDARUN_CACHE": ""})
        check(len(shell.told(f"cd {project}")) == 1, f"{name}: set -eu {when}")
        for line in ["cd ..", f"cd {project}", "cd /", "true", "! true", f"cd {project}"]:
            shell.type(line)
        check("alive" in shell.type("echo al\"\"ive"), f"{name}: set -eu {when}")
        shell.close()
        # A shell inside is another one, and has been told nothing.
        inner = Shell(name, home, before="set -a\n")
        check(len(inner.told(f"cd {project}")) == 1, f"{name}: set -a")
        check("told--" in inner.type('sh -c \'echo "told-${__CUDARUN_TOLD-}${__CUDARUN_AT-}-"\''), f"{name}: set -a, inside")
        inner.close()
    # Without a home, and without cudarun.
    shell = Shell(name, home)
    shell.type("unset HOME CDPATH")
    check(len(shell.told(f"cd {project}")) == 1, f"{name}: no home")
    shell.close()
    shell = Shell(name, home)
    shell.type("PATH=/usr/bin:/bin")
    seen = shell.type(f"cd {project}")
    check("not found" not in seen and "cudarun: " not in seen, f"{name}: cudarun is gone: {seen}")
    shell.close()
    home.close()


def disabled(name):
    """A later line of the start-up file throws the hook out: the first use of cudarun says so, once."""
    after = {
        "bash": "PROMPT_COMMAND='true'\n",
        "zsh": "precmd_functions=()\n",
        "fish": "functions -e __cudarun_hook\n",
    }[name]
    home = Home()
    project = home.project("project")
    shell = Shell(name, home, after=after)
    check(not shell.told(f"cd {project}"), f"{name}: the control: the hook is out")
    said = shell.told("cudarun --version")
    check(len(said) == 1 and "the hook is set up and never runs" in said[0], f"{name}: {said}")
    check("cudarun 0" in shell.type("cudarun --version"), f"{name}: it is started")
    check(not shell.told("cudarun --version"), f"{name}: said once")
    shell.close()
    shell = Shell(name, home, after=SHELLS[name]["hook"].format(options=""))
    check(not shell.told("cudarun --version"), f"{name}: the control: no note")
    check(len(shell.told(f"cd {project}")) == 1, f"{name}: evaluated twice, asked once")
    kind = shell.type("type cudarun" if name != "fish" else "type -t cudarun")
    check("function" not in kind.replace("type cudarun", ""), f"{name}: nothing stands before the program: {kind}")
    shell.close()
    # A user's own function of this name stays.
    own = "function cudarun; echo theirs; end\n" if name == "fish" else "function cudarun { echo theirs; }\n"
    for order in ["before", "after"]:
        shell = Shell(name, home, **{order: own})
        check("theirs" in shell.type("cudarun --version"), f"{name}: a function of one's own, {order}")
        shell.close()
    shell = Shell(name, home, env={"CUDARUN_HOOK": "off"})
    check(not shell.told(f"cd {project}") and "never runs" not in shell.type("cudarun --version"), f"{name}: off from the start")
    shell.close()
    # A quiet hook does not report what does not prevent a start.
    missing = home.project("odd", "nonsense = 1\n")
    shell = Shell(name, home, options="-q ")
    check(not shell.told(f"cd {missing}"), f"{name}: quiet")
    check(len(shell.told(f"cd {project}")) == 1, f"{name}: quiet, and an error")
    shell.close()
    shell = Shell(name, home)
    check(len(shell.told(f"cd {missing}")) == 1, f"{name}: the control: not quiet")
    shell.close()
    home.close()


def processes(name):
    """No process outside of projects; one in each directory of a project."""
    home = Home()
    project = home.project("project")
    os.makedirs(os.path.join(project, "deep"))
    os.makedirs(home.at("plain/deep"))
    log = home.at("log")
    under = ["strace", "-f", "-qq", "-e", "trace=execve,execveat,fork,vfork,clone,clone3,chdir,fchdir", "-y", "-o", log]
    shell = Shell(name, home, under=under)
    for line in ["cd plain", "cd deep", "cd ..", "pushd /", "popd", "cd ~", f"cd {project}", "cd deep", "cd /"]:
        shell.type(line)
    shell.close()
    with open(log) as file:
        lines = [line for line in file if "resumed" not in line]
    # By the directory that was entered: what was started before the next one.
    started = {}
    where = None
    for line in lines:
        entered = re.search(r'chdir\((?:"|\d+<)([^">]*)', line)
        if entered and (where or entered.group(1) == home.at("plain")):
            where = entered.group(1)
        elif where is not None:
            kind = "exec" if "exec" in line else "fork"
            # Fish works with threads, and asks man for its path some time after it was started.
            is_of_fish = name == "fish" and (kind == "fork" or '["man"' in line)
            if not is_of_fish:
                started.setdefault(where, []).append(kind)
    projects = {path: kinds for path, kinds in started.items() if path.startswith(project)}
    elsewhere = {path: kinds for path, kinds in started.items() if not path.startswith(project)}
    check(not elsewhere, f"{name}: processes outside of projects: {elsewhere}")
    check(sorted(projects) == [project, f"{project}/deep"], f"{name}: {started}")
    check(all(kinds.count("exec") == 1 for kinds in projects.values()), f"{name}: one process a directory: {projects}")
    home.close()


def follows(name):
    """In a project, and not outside, what is started is decided for itself."""
    ours = "python3 -c \"import os; print('ours' if '.' in os.environ.get('CUDARUN_TREE', '') else 'alone')\""
    variables = 'echo "[$LD_AUDIT] [$CUDARUN_TREE] [$CUDARUN_HOOK_FOLLOWS]"'
    for options, text in ("--follow ", ""), ("", "follow = true\n"):
        home = Home()
        project = home.project("project", text)
        os.makedirs(home.at("plain"))
        shell = Shell(name, home, options=options)
        what = f"{name} {options or text.strip()}"
        check("alone\n" in shell.type(ours), f"{what}: outside")
        told = shell.told(f"cd {project}")
        if text:
            check(len(told) == 1 and "not allowed yet" in told[0], f"{what}: {told}")
            check("alone\n" in shell.type(ours), f"{what}: not allowed")
            shell.type("cudarun -q allow")
            shell.type("cd /")
            told = shell.told(f"cd {project}")
        check(not told, f"{what}: {told}")
        check("ours\n" in shell.type(ours), f"{what}: inside")
        check("alone\n" in shell.type(f"cd ~/plain; true\n{ours}"), f"{what}: outside again")
        check("[] [] []\n" in shell.type(variables), f"{what}: nothing is left")
        # A person's own auditor stays. It is only shown: the loader would complain in every process.
        own = "set -gx LD_AUDIT /own.so" if name == "fish" else "export LD_AUDIT=/own.so"
        shell.type(f"{own} 2>/dev/null")
        inside = shell.type(f"cd {project} 2>/dev/null\n{variables}")
        check("[/own.so:" in inside and "] [//LD_AUDIT|=" in inside, f"{what}: {inside}")
        outside = shell.type(f"cd ~/plain\n{variables}")
        check("[/own.so] [] []\n" in outside, f"{what}: {outside}")
        shell.close()
        home.close()


for shell in sys.argv[2:] or SHELLS:
    for test in [walks, names, others, strict, disabled, processes, follows]:
        try:
            test(shell)
        except (TimeoutError, EOFError) as error:
            check(False, f"{test.__name__}: {error}")
print(f"hook: {checks} checks in bash, zsh and fish, {len(failures)} of them fail")
sys.exit(1 if failures else 0)
