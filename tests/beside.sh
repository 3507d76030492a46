#!/usr/bin/env bash
# Starts programs beside the real direnv, environment modules, Lmod, mise, uv, Ray, Jupyter, debugpy, systemd and Podman,
# and beside stand-ins of pixi, conda, an editor and model servers, with the very text of the documents, and each time
# without cudarun for comparison: tests/beside.sh [cudarun]
#
# Needs root, for a mount namespace in which /opt, /srv, /run and /usr/local/bin are empty, what .ci/packages installs,
# and the network for mise (by npm), uv, Jupyter, Ray, environment-modules and the schemas of Kubernetes; they are kept in
# ${XDG_CACHE_HOME:-~/.cache}/cudarun-tests/beside.
# shellcheck disable=SC2030,SC2031,SC2317  # subshells set variables for themselves; functions called by name
set -euo pipefail
here=$(dirname "$(realpath "$0")")
cudarun=$(realpath "${1:-$here/../target/release/cudarun}")
documents=$here/../docs
kept=${XDG_CACHE_HOME:-$HOME/.cache}/cudarun-tests/beside
uv=$kept/uv-0.13.9/bin/uv
kubernetes=$kept/kubernetes-validate-1.37.0
mise=$kept/mise-2026.9.15/node_modules/@jdxcode/mise-linux-x64/bin/mise
jupyter=(ipykernel==7.4.0 jupyter_client==8.10.0)

fetch() {
    mkdir -p "$kept"
    if [ ! -x "$uv" ]; then
        python3 -m venv "$kept/uv-0.13.9"
        "$kept/uv-0.13.9/bin/pip" install -q --disable-pip-version-check uv==0.13.9
    fi
    if [ ! -x "$mise" ] && command -v npm >/dev/null; then
        npm install --silent --no-audit --no-fund --prefix "$kept/mise-2026.9.15" @jdxcode/mise-linux-x64@2026.9.15
    fi
    if [ ! -x "$kubernetes/bin/kubernetes-validate" ]; then
        python3 -m venv "$kubernetes"
        "$kubernetes/bin/pip" install -q --disable-pip-version-check kubernetes-validate==1.37.0
    fi
    # Debian's Lmod, which is installed, excludes it.
    if [ ! -d "$kept/environment-modules" ]; then
        (cd "$kept" && apt-get download -qq -o APT::Sandbox::User=root environment-modules)
        dpkg -x "$kept"/environment-modules_*.deb "$kept/environment-modules.new"
        mv "$kept/environment-modules.new" "$kept/environment-modules"
    fi
    "$uv" venv -q --python /usr/bin/python3 "$work/ray"
    UV_CACHE_DIR=$kept/cache "$uv" pip install -q --python "$work/ray/bin/python" ray==2.60.0
    "$uv" venv -q "$work/jupyter/.venv"
    UV_CACHE_DIR=$kept/cache "$uv" pip install -q --python "$work/jupyter/.venv/bin/python" "${jupyter[@]}"
}

if [ -z "${BESIDE:-}" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    fetch
    BESIDE=$work unshare --mount --propagation private --pid --fork --mount-proc --kill-child "$0" "$cudarun"
    exit
fi

work=$BESIDE
failed=0
for place in /opt /srv /run /usr/local/bin; do
    mount -t tmpfs -o mode=755 none $place
done
cp "$cudarun" /usr/local/bin/cudarun
cudarun=/usr/local/bin/cudarun
unset XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR LD_LIBRARY_PATH
export HOME=$work/home PATH=/usr/local/bin:/usr/bin:/bin
mkdir -p "$HOME"
cd "$work"

# block NAME: the text in a document under that name.
block() {
    awk -v name="$1" '
        $0 ~ "^<!-- (run|used) by tests/beside.sh as " name " -->$" { wanted = 1; next }
        wanted && /^```/ { if (inside) exit; inside = 1; next }
        inside' "$documents"/*.md | grep . || { echo "no document has a block $1" >&2; exit 1; }
}

# is WHAT WANTED GOT: that a test has come out so; with a star for anything.
is() {
    # shellcheck disable=SC2053  # a pattern
    if [[ $3 != $2 ]]; then
        printf '%s\n  should be  %s\n  and is     %s\n' "$1" "$2" "$3"
        failed=1
    fi
}

step() {
    printf '%s (%d s)\n' "$1" "$SECONDS"
    "$1"
}

# --- Three places with cuDNN: 9.10 and 9.1 whole, and some parts of 9.1 alone, as a careless path has them.

# library DIRECTORY STEM VERSION [CODE], with the variable rpath as its search path
library() {
    mkdir -p "$1"
    cc -shared -fPIC -x c -Wl,-soname,"$2.so.9" ${rpath:+"-Wl,-rpath,$rpath"} -o "$1/$2.so.9" - <<EOF
__attribute__((used)) const char stamp[] = "cudnn_version_${3//./_}_";
unsigned cudnnGetCudartVersion(void) { return 12040; }
${4:-}
EOF
}

# A cuDNN opens its parts by their names.
main_code='#include <dlfcn.h>
static int part(const char *name) { return !dlopen(name, RTLD_NOW); }
int cudnnCreate(void **handle)
{
    return part("libcudnn_graph.so.9") + part("libcudnn_ops.so.9") + part("libcudnn_cnn.so.9");
}'
for version in 9.10.2.21 9.1.0.70; do
    directory=/opt/cudnn/${version%.*.*}/lib
    library "$directory" libcudnn $version "$main_code"
    for part in graph ops cnn adv heuristic engines_precompiled engines_runtime_compiled; do
        library "$directory" libcudnn_$part $version
    done
done
library /opt/parts libcudnn_ops 9.1.0.70
library /opt/parts libcudnn_cnn 9.1.0.70
whole=/opt/cudnn/9.10/lib
trap_path=/opt/parts:$whole
mixed="0 $whole /opt/parts"

# Prints if cuDNN started, and the directories of its files.
cat >train.py <<'EOF'
import ctypes, os
status = ctypes.CDLL("libcudnn.so.9").cudnnCreate(ctypes.byref(ctypes.c_void_p()))
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "/libcudnn" in line}
print(status, *sorted({os.path.dirname(path) for path in mapped}), flush=True)
EOF

# package ENVIRONMENT NAME: a package that is linked against cuDNN, as those that use it are, and does as train.py.
package() {
    local site
    site=$(echo "$1"/lib/python3.*/site-packages)
    mkdir -p "$site/$2" "$site/$2-1.0.dist-info"
    cc -shared -fPIC -x c -o "$site/$2/_$2.so" - -L"$whole" -l:libcudnn.so.9 <<'EOF'
int cudnnCreate(void **);
int create(void) { void *handle; return cudnnCreate(&handle); }
EOF
    sed "s,ctypes.CDLL(\"libcudnn.so.9\").cudnnCreate(.*,ctypes.CDLL(os.path.dirname(__file__) + \"/_$2.so\").create()," \
        train.py >"$site/$2/__init__.py"
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n' "$2" >"$site/$2-1.0.dist-info/METADATA"
    printf '%s,,\n' "$2"/{__init__.py,"_$2.so"} "$2-1.0.dist-info"/{METADATA,RECORD} >"$site/$2-1.0.dist-info/RECORD"
}

is "the comparison: without cudarun" "$mixed" "$(LD_LIBRARY_PATH=$trap_path python3 train.py)"
is "with it" "0 $whole" "$(LD_LIBRARY_PATH=$trap_path cudarun python3 train.py)"

export_in_shells() {
    local shell code
    code="$(block export)
python3 train.py"
    for shell in bash dash "zsh -f"; do
        is "export in $shell" "0 $whole" "$(LD_LIBRARY_PATH=$trap_path $shell -c "$code")"
    done
    code="$(block export-fish)
python3 train.py"
    is "export in fish" "0 $whole" "$(LD_LIBRARY_PATH=$trap_path fish --no-config -c "$code")"
}

direnv_in_a_project() {
    mkdir -p ~/.config/direnv project
    block direnvrc >~/.config/direnv/direnvrc
    block envrc >project/.envrc
    echo 'export AFTER=1' >>project/.envrc
    cp train.py project/
    cat >visit.sh <<'EOF'
eval "$(direnv hook bash)"
prompt() { _direnv_hook 2>"$work/said"; }
now() { env -0 | sort -z | grep -zv '^DIRENV_\|^_=\|^OLDPWD=' | tr '\0' '\n'; }
program() { python3 "$work/train.py"; }
export work
cd "$work"
direnv allow project
before=$(now)
echo "before: $(program)"
cd project && prompt
echo "inside: $(program) ${AFTER-}"
cd .. && prompt
[ "$(now)" = "$before" ] && echo "left: as before"
cd project && prompt
printf '[requires]\ncudnn = "~9.1"\n' >.cudarun.toml
prompt
echo "other version: $(program)"
printf '[requires]\ncudnn = "~9.10"\n' >.cudarun.toml
touch -d '+5 seconds' .cudarun.toml
prompt
echo "changed: $(program)"
printf '[requires]\ncudnn = ">=99"\n' >.cudarun.toml
touch -d '+10 seconds' .cudarun.toml
prompt
echo "refused: $(program) ${AFTER-}"
grep -o 'error: no cuDNN here fits\|direnv: error exit status 1' "$work/said"
rm .cudarun.toml
# direnv compares seconds: what is touched in the one in which it was read is not new to it.
sleep 1.1
direnv reload && prompt
echo "mended: $(program)"
EOF
    is direnv "before: $mixed
inside: 0 $whole 1
left: as before
other version: 0 /opt/cudnn/9.1/lib
changed: 0 $whole
refused: $mixed 
error: no cuDNN here fits
direnv: error exit status 1
mended: 0 $whole" "$(LD_LIBRARY_PATH=$trap_path:/opt/cudnn/9.1/lib work=$work bash --norc visit.sh)"
}

# modulefiles DIRECTORY END FIRST ADD: the same modules in Tcl and in Lua.
modulefiles() {
    local name
    for name in cudnn/9.10:$whole cudnn/9.1:/opt/cudnn/9.1/lib parts/1:/opt/parts; do
        mkdir -p "$1/${name%/*}"
        # shellcheck disable=SC2059  # a template
        { printf '%s' "$3"; printf "$4" "${name#*:}"; } >"$1/${name%:*}$2"
    done
}

modules() {
    local root=$kept/environment-modules init kind code
    modulefiles /opt/tcl "" $'#%Module\n' 'prepend-path LD_LIBRARY_PATH %s\n'
    modulefiles /opt/lua .lua "" 'prepend_path("LD_LIBRARY_PATH", "%s")\n'
    block modulefile >/opt/tcl/cudarun
    block modulefile.lua >/opt/lua/cudarun.lua
    mkdir -p /opt/cudarun/bin
    cp "$cudarun" /opt/cudarun/bin/
    # Its files are elsewhere than they were made for.
    cp -r "$root" modules
    sed -i "s,{/usr/lib/[^/]*-linux-gnu},{$PWD/modules/usr/lib/x86_64-linux-gnu},; s,{/usr/share/modules},{$PWD/modules/usr/share/modules}," \
        modules/usr/lib/*/modulecmd.tcl
    sed "s,'/usr/lib/[^/]*/modulecmd.tcl','$PWD/modules/usr/lib/x86_64-linux-gnu/modulecmd.tcl',g" \
        modules/usr/share/modules/init/bash >modules.sh
    for kind in "modules.sh /opt/tcl" "/usr/share/lmod/lmod/init/bash /opt/tcl" "/usr/share/lmod/lmod/init/bash /opt/lua"; do
        init=${kind% *}
        code="source $init; export MODULEPATH=${kind#* }
now() { env | grep '^PATH=\|LD_LIBRARY\|CUD\|MODULES=\|LMFILES' | grep -v '=\$' || true; }
before=\$(now)
$(block modules)
cudarun list cudnn | grep -c 'module  *$whole\$'
module unload cudnn
module load cudnn/9.1
cudarun python3 train.py
module unload cudnn
module load cudnn/9.10 parts
python3 train.py
cudarun python3 train.py
module purge
[ \"\$(now)\" = \"\$before\" ] && echo purged
python3 train.py 2>/dev/null || echo none
cudarun python3 train.py 2>/dev/null || echo none
PATH=/usr/bin:/bin
module load cudarun
command -v cudarun"
        is "modules by $kind" "0 $whole
1
0 /opt/cudnn/9.1/lib
$mixed
0 $whole
purged
none
none
/opt/cudarun/bin/cudarun" "$(bash --norc -c "$code" 2>&1)"
    done
    code='export LD_LIBRARY_PATH=/opt/parts:/opt/cudnn/9.10/lib
cudarun bash -c "python3 train.py"
bash -c "cudarun python3 train.py"'
    is "code for bash in a shell with Lmod" "0 $whole
0 $whole" "$(bash -lc "$code" 2>&1)"
    is "code for bash that is not followed" "cudarun: \`bash\` starts *: put cudarun *
$mixed
0 $whole" "$(CUDARUN_FOLLOW=off bash -lc "$code" 2>&1)"
}

# As install.sh does it.
install_in() {
    mkdir -p "$1/bin" "$1/lib/cudarun"
    [ -e "$1/bin/cudarun" ] || cp "$cudarun" "$1/bin/"
    "$cudarun" --module-for "$1/bin/cudarun" >"$1/lib/cudarun/follow.so"
}

modules_that_follow() {
    local kind code
    install_in /opt/cudarun
    for kind in "modules.sh module-tcl" "/usr/share/lmod/lmod/init/bash module-tcl" "/usr/share/lmod/lmod/init/bash module-lua"; do
        rm -rf /opt/modulefiles
        mkdir /opt/modulefiles
        (block "${kind#* }") | sh -e
        code="source ${kind% *}; export MODULEPATH=/opt/modulefiles PATH=/usr/bin:/bin
now() { env | grep '^PATH=\|LD_\|CUD\|MODULES=\|LMFILES' | grep -v '=\$' || true; }
before=\$(now)
python3 train.py
module load cudarun
python3 train.py; sh -c 'python3 train.py; :'; command -v cudarun
module load cudarun
python3 train.py
module unload cudarun
[ \"\$(now)\" = \"\$before\" ] && echo nothing is left
python3 train.py
# cudarun goes while its module is loaded.
module load cudarun
mv /opt/cudarun /opt/elsewhere
module unload cudarun 2>/dev/null
[ \"\$(now)\" = \"\$before\" ] && echo nothing is left
# And before.
module load cudarun
python3 train.py
mv /opt/elsewhere /opt/cudarun"
        is "modules that follow, ${kind#* } by ${kind% *}" "$mixed
0 $whole
0 $whole
/opt/cudarun/bin/cudarun
0 $whole
nothing is left
$mixed
nothing is left
$mixed" "$(LD_LIBRARY_PATH=$trap_path bash --norc -c "$code" 2>&1)"
        # In a shell that follows already, and after that.
        code="source ${kind% *}; export MODULEPATH=/opt/modulefiles
module load cudarun; python3 train.py; module unload cudarun; python3 train.py"
        is "a module in a shell that follows, ${kind#* } by ${kind% *}" "0 $whole
0 $whole" "$(LD_LIBRARY_PATH=$trap_path /opt/cudarun/bin/cudarun bash --norc -c "$code" 2>&1)"
    done
}

profile_of_all_users() {
    local code="python3 train.py; bash -lc 'python3 train.py; :'; env | grep 'LD_AUDIT\|CUDARUN' | wc -l" shell
    cp -r /etc/profile.d "$work/profile.d"
    mount --bind "$work/profile.d" /etc/profile.d
    block profile.d | sh -e
    # /etc/profile takes the variable of the loader as it is.
    export LD_LIBRARY_PATH=$trap_path
    for shell in "bash -l" "bash -li" "dash -l"; do
        is "profile.d in $shell" "0 $whole
0 $whole
2" "$($shell -c "$code" 2>"$work/said" || cat "$work/said")"
    done
    is "a shell that reads no profile" "$mixed" "$(bash -c 'python3 train.py')"
    is "profile.d without cudarun" "$mixed
$mixed
0" "$(mv /opt/cudarun /opt/elsewhere; bash -lc "$code" 2>&1; mv /opt/elsewhere /opt/cudarun)"
    is "as another user" "0 $whole" "$(chmod a+rx "$work"; setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/ bash -lc 'python3 train.py' 2>&1)"
    rm /etc/profile.d/cudarun.sh
    is "profile.d after its removal" "$mixed
$mixed
0" "$(bash -lc "$code" 2>&1)"
    unset LD_LIBRARY_PATH
    umount /etc/profile.d
}

tasks_of_mise() {
    if [ ! -x "$mise" ]; then
        echo "skipped: without npm mise cannot be had"
        return
    fi
    mkdir -p mise/shims
    block mise.toml >mise/mise.toml
    cp train.py mise/
    (
        cd mise
        ln -s "$mise" /usr/local/bin/mise
        export LD_LIBRARY_PATH=$trap_path MISE_OFFLINE=1
        mise trust -q
        is "mise, the comparison" "$mixed" "$(mise exec -- python3 train.py)"
        is mise "0 $whole
0 $whole" "$(bash -ec "$(block mise)" 2>"$work/said" || cat "$work/said")"
        ln -s "$mise" shims/python3
        is "a shim of mise" "0 $whole" "$(cudarun shims/python3 train.py 2>&1)"
        is "cudarun before mise" "0 $whole" "$(cudarun mise exec -- python3 train.py 2>&1)"
        is "a shim of mise that is not followed" "cudarun: *a mise shim*$mixed" "$(cudarun --no-follow shims/python3 train.py 2>&1)"
        exit "$failed"
    ) || failed=1
}

uv_in_both_orders() {
    mkdir -p uv
    printf '[project]\nname = "train"\nversion = "1"\nrequires-python = ">=3.9"\n' >uv/pyproject.toml
    cp train.py uv/
    (
        cd uv
        ln -s "$uv" /usr/local/bin/uv
        export LD_LIBRARY_PATH=$trap_path UV_OFFLINE=1 UV_CACHE_DIR=$work/uv-cache
        is "uv, the comparison" "$mixed" "$(uv run -q python train.py)"
        is uv "0 $whole
0 $whole" "$(bash -ec "$(block uv)" 2>"$work/said" || cat "$work/said")"
        is "what uv says" "" "$(grep cudarun "$work/said" || true)"
        exit "$failed"
    ) || failed=1
}

# conda_environment DIRECTORY: as conda and pixi make one. Its Python searches its lib, and its cuDNN, as NVIDIA's, its own
# directory, but for a search path in the environment.
conda_environment() {
    local python
    python=$(basename /usr/lib/python3.*/)
    mkdir -p "$1"/{bin,conda-meta}
    cp -r "$whole" "$1/lib"
    # shellcheck disable=SC2016  # for the loader
    rpath='$ORIGIN' library "$1/lib" libcudnn 9.10.2.21 "$main_code"
    cp -L /usr/lib/*/"lib$python.so.1.0" "$1/lib/"
    ln -s "/usr/lib/$python" "$1/lib/"
    # shellcheck disable=SC2016  # for the loader
    echo 'int Py_BytesMain(int, char **); int main(int count, char **words) { return Py_BytesMain(count, words); }' |
        cc -x c -o "$1/bin/python" - -L"$1/lib" -l:"lib$python.so.1.0" -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../lib'
    : >"$1/conda-meta/history"
}

# Neither can be had from a registry of Python or Node: they are scripts that do what the two do.
conda_and_pixi() {
    local code prefix=/opt/conda/envs/my-env
    conda_environment "$prefix"
    mkdir -p /opt/conda/bin
    cat >/opt/conda/bin/conda <<'EOF'
#!/bin/sh
[ "$1 $2" = "run -n" ] || exit 2
export CONDA_PREFIX=/opt/conda/envs/$3 CONDA_DEFAULT_ENV=$3 PATH=/opt/conda/envs/$3/bin:$PATH
shift 3
"$@"
EOF
    # `conda activate` is a function of the shell.
    # shellcheck disable=SC2016  # the shell knows them
    code='conda() { export CONDA_PREFIX=/opt/conda/envs/$2 CONDA_DEFAULT_ENV=$2 PATH=/opt/conda/envs/$2/bin:$PATH; }
'$(block conda)
    mkdir -p pixi
    block pixi.toml >pixi/pixi.toml
    cat >/usr/local/bin/pixi <<'EOF'
#!/bin/sh
[ "$1" = run ] || exit 2
shift
export CONDA_PREFIX=$PWD/.pixi/envs/default PIXI_PROJECT_ROOT=$PWD PATH=$PWD/.pixi/envs/default/bin:$PATH
task=$(sed -n "s/^$1 = \"\(.*\)\"/\1/p" pixi.toml)
[ -z "$task" ] || eval "set -- $task"
"$@"
EOF
    chmod +x /opt/conda/bin/conda /usr/local/bin/pixi
    conda_environment "$PWD/pixi/.pixi/envs/default"
    cp train.py pixi/
    export LD_LIBRARY_PATH=/opt/parts PATH=/opt/conda/bin:$PATH
    is "conda, the comparison" "0 $prefix/lib /opt/parts" "$(bash -ec "${code//cudarun /}" 2>&1)"
    is "conda" "0 $prefix/lib" "$(bash -ec "$code" 2>&1)"
    code=$(block conda-run)
    is "conda run, the comparison" "0 $prefix/lib /opt/parts" "$(${code#cudarun } 2>&1)"
    is "conda run" "0 $prefix/lib" "$($code 2>&1)"
    is "explain conda run" "*$prefix/lib*" "$(eval "cudarun explain ${code#cudarun }" 2>&1)"
    (
        cd pixi
        prefix=$PWD/.pixi/envs/default
        code=$(block pixi)
        is "pixi, the comparison" "0 /opt/parts $prefix/lib" "$(${code#cudarun } 2>&1)"
        is "pixi" "0 $prefix/lib" "$($code 2>&1)"
        is "cudarun in a task" "0 $prefix/lib" "$(pixi run train 2>&1)"
        exit "$failed"
    ) || failed=1
    unset LD_LIBRARY_PATH
    PATH=${PATH#*:}
}

workers_of_ray() {
    local environment=$work/ray name code
    package "$environment" linked
    cat >driver.py <<'EOF'
import contextlib, io, ray, sys
ray.init(address=sys.argv[1] if sys.argv[1:] else "local")

@ray.remote
def task():
    with contextlib.redirect_stdout(io.StringIO()) as said:
        import linked
    return said.getvalue().strip()

print(ray.get(task.remote()), flush=True)
EOF
    sed "s|^ray.init(.*|$(block ray-runtime.py)|" driver.py >runtime.py
    (
        export PATH=$environment/bin:$PATH LD_LIBRARY_PATH=$trap_path RAY_USAGE_STATS_ENABLED=0
        code=$(block ray)
        for name in as-it-is typed daemon; do
            mkdir ray."$name"
        done
        # They mostly wait, so they do it at once.
        RAY_TMPDIR=$PWD/ray.as-it-is ${code#cudarun } >as-it-is 2>said.as-it-is &
        RAY_TMPDIR=$PWD/ray.typed $code >typed 2>said.typed &
        export RAY_TMPDIR=$PWD/ray.daemon
        code=$(block ray-start)
        ${code#cudarun } >said 2>&1
        is "a task of a daemon as it is" "$mixed" "$(cudarun python driver.py auto 2>said || cat said)"
        is "a task with an environment of its own" "0 $whole" "$(python runtime.py 2>said || cat said)"
        wait
        [ -s typed ] || cat said.typed
        is "a task of Ray, the comparison" "$mixed" "$(cat as-it-is)"
        is "a task of Ray" "0 $whole" "$(cat typed)"
        ray stop --force >/dev/null 2>&1
        $code >said 2>&1
        is "a task of a daemon" "0 $whole" "$(python driver.py auto 2>said || cat said)"
        ray stop --force >/dev/null 2>&1
        exit "$failed"
    ) || failed=1
}

# Small programs that open cuDNN as the servers do: Python in a process that it spawns, others by name.
model_servers() {
    local environment=$work/ray name code
    cat >"$environment/bin/vllm" <<EOF
#!$environment/bin/python
import multiprocessing
def engine():
    import linked
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=engine)
    process.start()
    process.join()
EOF
    chmod +x "$environment/bin/vllm"
    for name in ollama tritonserver; do
        cc -x c -o "/usr/local/bin/$name" - <<'EOF'
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
    void *handle, *library = dlopen("libcudnn.so.9", RTLD_NOW);
    char command[200];
    if (!library)
        return 1;
    snprintf(command, sizeof command, "echo %d $(sed -n 's,.* \\(/.*\\)/libcudnn[^/]*$,\\1,p' /proc/%d/maps | sort -u)",
             ((int (*)(void **))dlsym(library, "cudnnCreate"))(&handle), getpid());
    return system(command);
}
EOF
    done
    (
        export PATH=$environment/bin:$PATH LD_LIBRARY_PATH=$trap_path
        for name in vllm ollama triton; do
            code=$(block "$name")
            is "$name, the comparison" "$mixed" "$(${code#cudarun } 2>&1)"
            is "$name" "0 $whole" "$($code 2>&1)"
        done
        exit "$failed"
    ) || failed=1
}

# What an editor starts: a shell in its terminal, and a program in its debugger, which is the real one.
editors() {
    local code profile
    cat >/usr/local/bin/code <<'EOF'
#!/bin/sh
exec setsid --wait bash -c 'python3 train.py; :'
EOF
    chmod +x /usr/local/bin/code
    mkdir editors
    cp train.py editors/
    # A debugger may run anything: the packages of its environment count.
    package "$work/jupyter/.venv" debugged
    echo 'import debugged' >editors/main.py
    cat >editors/debug.py <<'EOF'
# As VS Code starts main.py, with the variables of `.env` if there is one.
import json, os, subprocess, sys
adapter = subprocess.Popen([sys.executable, "-m", "debugpy.adapter"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL)
sent = 0
def send(command, **arguments):
    global sent
    sent += 1
    body = json.dumps({"seq": sent, "type": "request", "command": command, "arguments": arguments}).encode()
    adapter.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    adapter.stdin.flush()

lines = list(filter(None, open(".env").read().splitlines())) if os.path.exists(".env") else []
send("initialize", adapterID="debugpy")
send("launch", name="train", type="debugpy", request="launch", console="internalConsole", program=os.path.abspath("main.py"),
     python=["python3"], cwd=os.getcwd(), env=dict(line.split("=", 1) for line in lines))
event = None
while event != "terminated" and (line := adapter.stdout.readline()):
    adapter.stdout.readline()
    message = json.loads(adapter.stdout.read(int(line.split()[1])))
    event = message.get("event")
    if event == "initialized":
        send("configurationDone")
    elif event == "output" and message["body"]["category"] == "stdout":
        print(message["body"]["output"], end="", flush=True)
    elif message.get("success") is False:
        sys.exit(message["message"])
EOF
    (
        cd editors
        export PATH=$work/jupyter/.venv/bin:$PATH LD_LIBRARY_PATH=$trap_path
        code=$(block editor)
        is "what an editor starts, the comparison" "$mixed" "$(${code#cudarun } 2>&1)"
        is "what an editor starts" "0 $whole" "$($code 2>&1)"
        profile=$(block settings.json | python3 -c '
import json, sys
settings = json.load(sys.stdin)
profile = settings["terminal.integrated.profiles.linux"][settings["terminal.integrated.defaultProfile.linux"]]
print(profile["path"], *profile["args"])')
        is "a terminal, the comparison" "$mixed" "$(bash <<<"python3 train.py" 2>&1)"
        is "a terminal" "0 $whole" "$($profile <<<"python3 train.py" 2>&1)"
        is "a debugger, the comparison" "$mixed" "$(python3 debug.py 2>&1)"
        # What is there stays, even if its last line has no end.
        printf KEPT=1 >.env
        bash -ec "$(block env-file)"
        is "the file's own line" KEPT=1 "$(head -n 1 .env)"
        is "the lines that are added" 2 "$(grep -c '^LD_AUDIT=\|^CUDARUN_TREE=' .env)"
        is "a debugger" "0 $whole" "$(python3 debug.py 2>&1)"
        mv .env before
        printf KEPT=1 >.env
        cudarun bash -ec "$(block env-file)"
        is "the file from a shell that follows" "$(cat before)" "$(cat .env)"
        exit "$failed"
    ) || failed=1
}

kernel_of_jupyter() {
    local data=$HOME/.local/share/jupyter environment=$work/jupyter/.venv
    package "$environment" deep
    cat >kernel.py <<'EOF'
import os, sys, time
from jupyter_client.manager import KernelManager

def run(client, code):
    """What a cell prints, and how it ends."""
    text = []
    reply = client.execute_interactive(code, timeout=60, output_hook=lambda it: text.append(it["content"].get("text", "")))
    content = reply["content"]
    return "".join(text).strip(), content["status"] + content.get("ename", "")

manager = KernelManager(kernel_name=sys.argv[1])
manager.start_kernel()
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=60)
print(*run(client, "import deep"))
process = manager.provisioner.process.pid
print(*run(client, "import os; print(os.getpid() == %d)" % process))
client.execute("import time; print('begun', flush=True); time.sleep(60)")
while client.get_iopub_msg(timeout=60)["content"].get("text") != "begun\n":
    pass
began = time.monotonic()
manager.interrupt_kernel()
while (reply := client.get_shell_msg(timeout=60))["content"].get("status") != "error":
    pass
print(reply["content"]["ename"], time.monotonic() - began < 10)
# Input right after an error is discarded.
while (end := run(client, "1"))[1] == "aborted":
    pass
print(*end)
manager.restart_kernel()
client.wait_for_ready(timeout=60)
print(*run(client, "import deep"))
process = manager.provisioner.process.pid
file = manager.connection_file
manager.shutdown_kernel()
print("left", os.path.exists(f"/proc/{process}"), os.path.exists(file))
EOF
    kernel() {
        (
            cd jupyter
            PATH=$environment/bin:$PATH LD_LIBRARY_PATH=$trap_path python3 ../kernel.py "$1" 2>"$work/said" || cat "$work/said"
        )
    }
    # kernel_is NAME LIBRARIES: what it finds, also after an interrupt and a restart.
    kernel_is() {
        is "the kernel $1" "$2 ok
True ok
KeyboardInterrupt True
 ok
$2 ok
left False False" "$(kernel "$1")"
    }
    # In a new home, what is written and removed leaves nothing.
    (cd jupyter && bash -ec "$(block kernel)" && bash -ec "$(block kernel-off)") >/dev/null
    is "what an unused kernel leaves" "" "$(find "$data" 2>/dev/null || true)"
    # The environment's own kernel is the control.
    kernel_is python3 "$mixed"
    is "hook jupyter" "the kernel \`cudarun-jupyter\` starts $environment/bin/python with cudarun: *next: jupyter lab, *" \
        "$(cd jupyter && bash -ec "$(block kernel)" 2>&1)"
    kernel_is cudarun-jupyter "0 $whole"
    kernel_is python3 "$mixed"
    # Jupyter prefers the environment's own of that name.
    is "a kernel that would be hidden" "cudarun: *share/jupyter/kernels/python3*exists, and is not cudarun's*" \
        "$(cudarun hook jupyter --name python3 jupyter/.venv/bin/python 2>&1 || true)"
    (cd jupyter && bash -ec "$(block kernel-off)") >/dev/null
    is "what the kernels leave" "" "$(find "$data" -name '*kernel*' 2>/dev/null || true)"
    kernel_is python3 "$mixed"
    is "the kernel that was removed" "*NoSuchKernel*" "$(kernel cudarun-jupyter)"
}

# The wheel's Python part beside jupyter_client, which finds the provisioner by its entry point.
provisioner_of_jupyter() {
    local site environment=$work/jupyter/.venv kernels=$HOME/.local/share/jupyter/kernels name
    site=$(echo "$environment"/lib/python3.*/site-packages)
    mkdir -p "$site/cudarun-0.dist-info"
    cp -r "$here/../python/cudarun" "$site/"
    printf 'Metadata-Version: 2.1\nName: cudarun\nVersion: 0\n' >"$site/cudarun-0.dist-info/METADATA"
    sed -n '/^\[project.entry-points/,/^$/p' "$here/../pyproject.toml" |
        sed 's/^\[project.entry-points."\(.*\)"\]$/[\1]/; s/"//g' >"$site/cudarun-0.dist-info/entry_points.txt"
    package "$environment" linked
    # Besides ipykernel's own: one that is another program, one that has cudarun already, one whose program is gone.
    for name in script already gone; do mkdir -p "$kernels/$name"; done
    cat >"$kernels/script/kernel.json" <<'EOF'
{"argv": ["/bin/sh", "-c", "python3 -m ipykernel_launcher -f \"$1\"; :", "sh", "{connection_file}"], "display_name": "", "language": "sh"}
EOF
    cat >"$kernels/already/kernel.json" <<'EOF'
{"argv": ["cudarun", "python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "", "language": "python"}
EOF
    echo '{"argv": ["/nowhere/python"], "display_name": "", "language": "python"}' >"$kernels/gone/kernel.json"
    cat >provisioned.py <<'EOF'
import logging, os, sys, time
from jupyter_client.manager import KernelManager

logging.basicConfig(level=logging.WARNING)

def run(client, code):
    """What a cell prints, and the HTML of its value."""
    text = []
    def output(message):
        content = message["content"]
        text.append(content.get("text", "") or content.get("data", {}).get("text/html", "") or content.get("ename", ""))
    client.execute_interactive(code, timeout=60, output_hook=output)
    return "".join(text).strip()

manager = KernelManager(kernel_name=sys.argv[1])
try:
    manager.start_kernel()
except OSError as error:
    sys.exit(f"{type(error).__name__} {error.filename}")
client = manager.client()
client.start_channels()
try:
    client.wait_for_ready(timeout=60)
except RuntimeError:
    sys.exit(f"alive {manager.is_alive()}")
print(type(manager.provisioner).__name__)
for is_restarted in False, True:
    if is_restarted:
        if sys.argv[2] == "once":
            break
        manager.restart_kernel()
        client.wait_for_ready(timeout=60)
        print("restarted", os.path.exists(f"/proc/{process}"))
    process = manager.provisioner.process.pid
    print(run(client, "import linked"))
    page = run(client, "import cudarun; cudarun.check()")
    print("mixes NVIDIA libraries" in page, "<table>" in page, "cudarun hook jupyter " in page)
    print("it is" if run(client, "import os; print(os.getpid())") == str(process) else "it is below", "the process")
    client.execute("import time; print('begun', flush=True); time.sleep(60)")
    while client.get_iopub_msg(timeout=60)["content"].get("text") != "begun\n":
        pass
    began = time.monotonic()
    manager.interrupt_kernel()
    while (reply := client.get_shell_msg(timeout=60))["content"].get("status") != "error":
        pass
    print(reply["content"]["ename"], time.monotonic() - began < 10)
manager.shutdown_kernel()
print("left", os.path.exists(f"/proc/{process}"))
EOF
    # provisioned KERNEL once|twice [VARIABLE…]: what the cells say, and then what the log says of cudarun.
    provisioned() {
        env PATH="$environment/bin:$PATH" LD_LIBRARY_PATH="$trap_path" "${@:3}" python3 provisioned.py "$1" "$2" 2>said || true
        grep 'cudarun \|no cuDNN\|no cudarun\|^FileNotFoundError /\|^alive' said || true
    }
    # cells LIBRARIES IS-MIXED [below]
    cells() {
        printf '%s\n' "$1" "$2 True $2" "it is ${3+$3 }the process" "KeyboardInterrupt True"
    }
    local always=JUPYTER_DEFAULT_PROVISIONER_NAME=cudarun as_it_is right
    as_it_is=$(cells "$mixed" True)
    right=$(cells "0 $whole" False)
    is "a kernel as it is" "LocalProvisioner
$as_it_is
left False" "$(provisioned python3 once)"
    is "every kernel" "CudarunProvisioner
$right
restarted False
$right
left False" "$(provisioned python3 twice "$always")"
    is "a kernel that has cudarun already" "CudarunProvisioner
$right
left False" "$(provisioned already once "$always")"
    is "a kernel of another language, as it is" "LocalProvisioner
$(cells "$mixed" True below)
left False" "$(provisioned script once)"
    is "a kernel of another language" "CudarunProvisioner
$(cells "0 $whole" False below)
left False" "$(provisioned script once "$always")"
    is "a kernel where cudarun is not" "CudarunProvisioner
$(cells "$mixed" False | sed 's/^False True/False False/')
left False
WARNING:*there is no cudarun, so this kernel starts without it; hint: pip install*" \
        "$(provisioned python3 once "$always" PATH="$environment/bin:/usr/bin:/bin")"
    is "a kernel whose program is gone" "FileNotFoundError /nowhere/python" "$(provisioned gone once "$always")"
    printf '[requires]\ncudnn = ">=99"\n' >.cudarun.toml
    is "a refused kernel" "error: no cuDNN here fits*cudarun did not start this kernel*alive False" "$(provisioned python3 once "$always")"
    rm .cudarun.toml
}

unit_of_systemd() {
    mkdir -p /srv/model /run/systemd/system /run/user/0 ~/.config/systemd/user
    chmod 700 /run/user/0
    # A service that says when it is ready, and what it was given.
    cat train.py - >/srv/model/serve.py <<'EOF'
import signal, socket
print("main", flush=True)
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.connect(os.environ["NOTIFY_SOCKET"])
notify.send(b"READY=1")
signal.pause()
EOF
    block model.service >unit
    printf '%s\n' Type=notify >>unit
    mv unit ~/.config/systemd/user/model.service
    sed 's,/usr/local/bin/cudarun ,,' ~/.config/systemd/user/model.service >~/.config/systemd/user/plain.service
    sed "s,cudarun /usr,cudarun --require=cudnn>=99 /usr,; s,^Type.*,Restart=always," ~/.config/systemd/user/model.service \
        >~/.config/systemd/user/refused.service
    cp ~/.config/systemd/user/model.service /run/systemd/system/
    is "systemd-analyze verify" "" "$(systemd-analyze verify /run/systemd/system/model.service 2>&1 | grep model || true)"
    # A packaged service, and one of the same for a person's own manager.
    mount -t tmpfs none /etc/systemd/system
    mkdir -p ~/.local/share/systemd/user
    printf '%s\n' '[Service]' Type=notify "Environment=LD_LIBRARY_PATH=$trap_path" "StandardOutput=truncate:$work/ollama.out" \
        $'ExecStart=/usr/bin/python3 \\\n    /srv/model/serve.py' >/run/systemd/system/ollama.service
    sed 's,ollama,own,' /run/systemd/system/ollama.service >~/.local/share/systemd/user/own.service
    printf '%s\n' NoNewPrivileges=yes MemoryDenyWriteExecute=yes >>~/.local/share/systemd/user/own.service
    export XDG_RUNTIME_DIR=/run/user/0
    # There is no manager of the machine here: that of the user reads its units too.
    SYSTEMD_UNIT_PATH=/etc/systemd/system:/run/systemd/system: /usr/lib/systemd/systemd --user 2>"$work/said" &
    local manager=$! name main
    for _ in $(seq 100); do
        systemctl --user is-system-running 2>/dev/null | grep -q running && break
        sleep 0.1
    done
    for name in model plain refused; do
        mkdir -p ~/.config/systemd/user/"$name".service.d
        printf '[Service]\nEnvironment=LD_LIBRARY_PATH=%s\nStandardOutput=file:%s\nStandardError=file:%s\n' \
            "$trap_path" "$work/$name.out" "$work/$name.err" >~/.config/systemd/user/"$name".service.d/test.conf
    done
    systemctl --user daemon-reload
    systemctl --user start plain model
    is "the unit without cudarun" "$mixed
main" "$(cat plain.out)"
    is "the unit" "0 $whole
main" "$(cat model.out)"
    main=$(systemctl --user show --property=MainPID --value model)
    is "its main process" "python3" "$(cat "/proc/$main/comm")"
    systemctl --user stop model plain
    is "it ends by a signal" "success" "$(systemctl --user show --property=Result --value model)"
    systemctl --user start refused || true
    for _ in $(seq 50); do
        [ "$(systemctl --user is-active refused)" = failed ] && break
        sleep 0.1
    done
    is "a refused unit" "failed 125 0" "$(systemctl --user is-active refused) \
$(systemctl --user show --property=ExecMainStatus --value refused) $(systemctl --user show --property=NRestarts --value refused)"
    is "its reason" "error: no cuDNN here fits*" "$(head -1 refused.err)"
    packaged_services
    kill "$manager"
    wait "$manager" || true
    unset XDG_RUNTIME_DIR
}

packaged_services() {
    # as_administrator CODE: for the machine, whose manager is not here.
    as_administrator() {
        bash -ec 'sudo() { "$@"; }
systemctl() { command systemctl --user "$@"; }
'"$1"
    }
    local file=/etc/systemd/system/ollama.service.d/zz-cudarun.conf name
    systemctl --user start ollama own
    is "a packaged service as it is" "$mixed
main" "$(cat ollama.out)"
    is "hook systemd" "ollama.service starts with cudarun when it is restarted:

--- /run/systemd/system/ollama.service
-ExecStart=/usr/bin/python3 /srv/model/serve.py
+++ $file
+ExecStart=$cudarun /usr/bin/python3 /srv/model/serve.py
+RestartPreventExitStatus=125
+CacheDirectory=cudarun/%N

next: systemctl daemon-reload && systemctl restart ollama.service" "$(as_administrator "$(block service)" 2>&1)"
    is "a packaged service with the drop-in" "0 $whole
main" "$(cat ollama.out)"
    is "what systemd makes of it" "" "$(systemd-analyze verify /run/systemd/system/ollama.service 2>&1 | grep ollama || true)"
    is "its cache" "$HOME/.cache/cudarun/ollama" "$(tr '\0' '\n' <"/proc/$(systemctl --user show --property=MainPID --value ollama)/environ" |
        sed -n 's/^CACHE_DIRECTORY=//p')"
    # What the administrator edits later does not undo it, under no name of the unit.
    ln -s ollama.service /run/systemd/system/llm.service
    for name in /etc/systemd/system/ollama /run/systemd/system/llm; do
        mkdir -p "$name.service.d"
        printf '[Service]\nExecStart=\nExecStart=/bin/false %s\n' "$name" >"$name.service.d/override.conf"
        as_administrator "$(block service)" >/dev/null 2>&1 || true
        is "the command that counts" "*path=$cudarun ; argv*]=$cudarun /bin/false $name ;*" \
            "$(systemctl --user show --property=ExecStart ollama)"
        rm "$name.service.d/override.conf"
    done
    as_administrator "$(block service)" >/dev/null
    as_administrator "$(block service-off)" >/dev/null
    is "what the drop-in leaves" "" "$(find /etc/systemd/system -mindepth 1)"
    is "the service without it" "$mixed
main" "$(cat ollama.out)"
    is "a service of one's own as it is" "$mixed
main" "$(cat own.out)"
    cudarun -q hook systemd --user own
    systemctl --user daemon-reload && systemctl --user restart own
    is "a service of one's own" "0 $whole
main" "$(cat own.out)"
    cudarun -q hook systemd --user own --uninstall
    systemctl --user daemon-reload && systemctl --user restart own
    is "a service of one's own without it" "$mixed
main" "$(cat own.out)"
    is "what its drop-in leaves" "" "$(find ~/.config/systemd/user -name '*own*')"
    systemctl --user stop ollama own
}

entrypoint_of_a_container() {
    local root=$work/root file options
    # The content of a small image: a shell, Python and cuDNN.
    mkdir -p "$root"/{usr/bin,usr/lib,etc,tmp,root,opt/cudnn/9.10} context
    chmod 1777 "$root/tmp"
    ln -s usr/bin usr/lib "$root/"
    ln -s usr/lib "$root/lib64"
    cp /bin/busybox "$root/usr/bin/sh"
    cp -L /usr/bin/python3 "$root/usr/bin/"
    cp -a /usr/lib/python3.* "$root/usr/lib/"
    for file in /usr/bin/python3 /usr/lib/python3*/lib-dynload/_ctypes*.so; do
        ldd "$file" | grep -o '/[^ ]*'
    done | sort -u | xargs cp -Lt "$root/usr/lib"
    cp -a /opt/cudnn/9.10/lib "$root/opt/cudnn/9.10/"
    cp -a /opt/parts "$root/opt/"
    # There is no network: what the Dockerfile installs is there.
    cat >"$root/usr/bin/apt-get" <<'EOF'
#!/bin/sh
case "$*" in
update | "install -y --no-install-recommends python3") ;;
*) exit 100 ;;
esac
EOF
    chmod 755 "$root/usr/bin/apt-get"
    # shellcheck disable=SC2016  # Podman knows the variable.
    block Dockerfile | sed 's,^FROM .*,ARG BASE\nFROM $BASE,' >context/Dockerfile
    cp "$cudarun" train.py context/
    # Its control groups are those of the namespace, and resources that it may not raise stay as they are.
    umount /sys/fs/cgroup/unified 2>/dev/null || true
    podman() {
        command podman --root /run/store --runroot /run/run --storage-driver overlay --cgroup-manager cgroupfs \
            --tmpdir /run/podman "$@"
    }
    tar -C "$root" -c . | podman import -q --change "ENV LD_LIBRARY_PATH=$trap_path" - base >/dev/null
    podman build -q --network none --build-arg BASE=localhost/base --tag train context >/dev/null
    # A base without cuDNN: the build ends at `explain`, and without that line it does not.
    tar -C "$root" --exclude ./opt -c . | podman import -q - bare >/dev/null
    build=(podman build --network none --build-arg BASE=localhost/bare)
    is "the build of a bare image" "*no cuDNN*exit status 1*" "$("${build[@]}" context 2>&1 || echo "status $?")"
    grep -v '^RUN' context/Dockerfile >bare
    is "the same without explain" built "$("${build[@]}" -f bare context >/dev/null 2>&1 && echo built)"
    options=(--rm --network none --cgroups disabled --ulimit nofile=1024:1024 --ulimit nproc=4096:4096
        -e "LD_LIBRARY_PATH=$trap_path")
    is "the container without cudarun" "$mixed" "$(podman run "${options[@]}" --entrypoint python3 train train.py 2>&1)"
    is "the container" "0 $whole" "$(podman run "${options[@]}" train 2>&1)"
    is "process 1" "1 0" "$(podman run "${options[@]}" train python3 -c 'import os; print(os.getpid(), os.getuid())' 2>&1)"
    is "its status" 7 "$(podman run "${options[@]}" train sh -c 'exit 7' 2>&1 || echo $?)"
    foreign_image
    feature_of_a_dev_container
    # A GPU can be reached, as far as files tell, with the driver 550.
    mkdir -p module/nvidia
    echo 550.54.15 >module/nvidia/version
    : >gpu
    options+=(-v "$PWD/module:/sys/module:ro" -v "$PWD/gpu:/dev/nvidia0" -v "$PWD/gpu:/dev/nvidiactl" -e CUDARUN_VERIFY=never)
    is "what the image requires, and has" "0 $whole" \
        "$(podman run "${options[@]}" -e NVIDIA_REQUIRE_CUDA='cuda>=12.4' train 2>&1)"
    is "what the image requires, and has not" "*error:*NVIDIA_REQUIRE_CUDA*125" \
        "$(podman run "${options[@]}" -e NVIDIA_REQUIRE_CUDA='cuda>=13.0' train 2>&1 || echo $?)"
}

# An image without cudarun, whose entry point starts its command.
foreign_image() {
    local code wanted outer=("${options[@]}")
    export IMAGE=foreign
    cat >foreign <<'EOF'
FROM localhost/base
COPY train.py /srv/
WORKDIR /srv
ENTRYPOINT ["sh", "-c", "\"$0\" \"$@\"; :"]
CMD ["python3", "train.py"]
EOF
    podman build -q --network none --tag foreign -f foreign context >/dev/null
    is "a foreign image, the comparison" "$mixed" "$(podman run "${options[@]}" foreign 2>&1)"
    mount -t tmpfs -o mode=755 none /usr/local/lib
    install_in /usr/local
    code=$(block foreign-image)
    # Podman ignores `--gpus all`, which is Docker's.
    docker() { podman "$1" "${options[@]}" "${@:2}"; }
    wanted="0 $whole
0 $whole"
    is "a foreign image" "$wanted" "$(eval "$code" 2>&1)"
    is "what its shell starts" "0 $whole" \
        "$(eval "$(head -n 1 <<<"$code" | sed 's/python3 train.py/sh -c "python3 train.py; :"/')" 2>&1)"
    options+=(--read-only --tmpfs /tmp --user 1000:1000)
    is "a foreign image, read-only, for a user" "$wanted" "$(eval "$code" 2>&1)"
    options=("${outer[@]}")
    umount /usr/local/lib
}

# with_feature VARIABLES…: what a login shell prints in an image with the feature, or why it cannot be made. As a tool
# for dev containers does it: the folder is copied into the image, and root runs install.sh with the options as variables.
with_feature() {
    printf 'FROM localhost/devices\nCOPY . /tmp/feature\nRUN cd /tmp/feature && env %s ./install.sh\n' "$*" >feature.file
    if podman build -q --network none --tag with-feature -f feature.file feature >said 2>&1; then
        podman run "${options[@]}" --user 1000:1000 with-feature sh -lc 'python3 train.py; :' 2>&1
    else
        grep -A1 '^cudarun: ' said || cat said
    fi
}

feature_of_a_dev_container() {
    local sum name
    name=cudarun-0-$(uname -m)-linux
    # What a release archive has.
    mkdir -p "$name"/{bin,share/man/man1,share/bash-completion/completions,share/zsh/site-functions,share/fish/vendor_completions.d}
    cp "$cudarun" "$name/bin/"
    cp "$here/../install.sh" "$name/"
    cp "$here/../docs/cudarun.1" "$name/share/man/man1/"
    cp "$here/../completions/cudarun.bash" "$name/share/bash-completion/completions/cudarun"
    cp "$here/../completions/_cudarun" "$name/share/zsh/site-functions/"
    cp "$here/../completions/cudarun.fish" "$name/share/fish/vendor_completions.d/"
    tar -czf "$name.tar.gz" "$name"
    sum=$(sha256sum <"$name.tar.gz")
    sum=${sum%% *}
    # Everything that busybox can do, and a profile as Debian has it.
    cp /etc/profile context/
    cat >devices <<'EOF'
FROM localhost/base
COPY profile /etc/
COPY train.py /srv/
WORKDIR /srv
RUN mkdir -p /usr/local/bin && (exec -a busybox sh --list) | while read -r name; do [ -e /usr/bin/$name ] || ln -s sh /usr/bin/$name; done
EOF
    podman build -q --network none --tag devices -f devices context >/dev/null
    cp -r "$here/../examples/devcontainer/cudarun" feature
    is "no archive" "cudarun: the option archive is empty*hint: \"archive\"*" "$(with_feature)"
    cp "$name.tar.gz" feature/
    is "a dev container" "0 $whole" "$(with_feature "SHA256=${sum^^}")"
    is "a dev container that does not follow" "$mixed" "$(with_feature "SHA256=$sum" FOLLOW=false)"
    is "its cudarun" "0 $whole" "$(podman run "${options[@]}" with-feature cudarun python3 train.py 2>&1)"
    is "no checksum" "cudarun: there is no ./$name.tar.gz.sha256*hint: \"sha256\"*" "$(with_feature)"
    is "a wrong checksum" "cudarun: *is not what its checksum says*hint: *do not use*" "$(with_feature SHA256=0123)"
    is "a wrong word for follow" "cudarun: the option follow is maybe*hint: *" "$(with_feature FOLLOW=maybe)"
    is "no such file" "cudarun: there is no file -it's*hint: *" "$(with_feature "ARCHIVE=\"-it's\"")"
    is "a wrong address" "cudarun: http://127.0.0.1:9/a.tar.gz cannot be had*hint: *" \
        "$(with_feature ARCHIVE=http://127.0.0.1:9/a.tar.gz)"
    : >"feature/$name.tar.gz.sha256"
    is "an empty checksum" "cudarun: *.sha256 is empty*hint: *" "$(with_feature)"
    (sha256sum "$name.tar.gz") >"feature/$name.tar.gz.sha256"
    is "the checksum beside it" "0 $whole" "$(with_feature)"
    cp train.py "feature/cudarun-1-$(uname -m)-linux.tar.gz"
    is "two archives" "cudarun: *are beside install.sh*hint: name one*" "$(with_feature)"
    is "a file that is no archive" "cudarun: *cannot be unpacked*hint: *" \
        "$(with_feature "ARCHIVE=cudarun-1-$(uname -m)-linux.tar.gz" "SHA256=$(sha256sum <train.py | cut -c-64)")"
    tar -C feature -czf feature/other.tar.gz install.sh
    is "an archive of something else" "cudarun: other.tar.gz is no release archive*hint: *" \
        "$(with_feature ARCHIVE=other.tar.gz "SHA256=$(sha256sum <feature/other.tar.gz | cut -c-64)")"
}

# The text of Kubernetes' objects is what its schema says; the control has a misspelt key.
objects_of_kubernetes() {
    local name validate=("$kubernetes/bin/kubernetes-validate" --strict --quiet --kubernetes-version 1.30)
    for name in pod.yaml describe.yaml; do
        block "$name" >object.yaml
        is "$name" 0 "$("${validate[@]}" object.yaml; echo $?)"
        sed 's/command:/comand:/' object.yaml >misspelt.yaml
        is "$name, misspelt" 1 "$("${validate[@]}" misspelt.yaml >/dev/null; echo $?)"
    done
}

step export_in_shells
step objects_of_kubernetes
step direnv_in_a_project
step modules
step modules_that_follow
step profile_of_all_users
step tasks_of_mise
step uv_in_both_orders
step conda_and_pixi
step workers_of_ray
step model_servers
step editors
step kernel_of_jupyter
step provisioner_of_jupyter
step unit_of_systemd
step entrypoint_of_a_container
[ $failed -eq 0 ] && printf 'beside: all of it holds (%d s)\n' "$SECONDS"
exit $failed
