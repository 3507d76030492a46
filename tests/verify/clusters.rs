//! Ranks that Slurm and Open MPI start on a machine with stand-in GPUs: each gets the same set, and one of them proves
//! it. Commands and scripts are those of `docs/clusters.md` and `docs/slurm.md`, word for word.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::gpu_machine::{GpuMachine, texts};
use crate::support::{CUDARUN, skipped, stand_in};

/// A rank: it says which one it is, and what it was given.
const TRAIN: &str = r#"import ctypes, os
ctypes.CDLL("libcudart.so.13")
ctypes.CDLL("libcudnn.so.9")
rank = os.environ.get("SLURM_PROCID", os.environ.get("OMPI_COMM_WORLD_RANK"))
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "/libcudnn" in line}
directories = {os.path.basename(os.path.dirname(path)) for path in mapped}
gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "all")
print("rank", rank, *sorted(directories), gpu, os.environ.get("CUDARUN_VIEW"), flush=True)
"#;

/// Starts a Slurm of one node, and waits until it takes jobs. Nothing of it outlives the shell.
const SLURM: &str = r#"
set -eu
export SLURM_CONF=$WORK/slurm/slurm.conf
chmod 755 "$WORK"
rm -rf "$WORK/slurm"
mkdir -p "$WORK/slurm/state" "$WORK/slurm/spool"
mkdir -m 700 "$WORK/slurm/munge"
cd "$WORK/slurm"
(umask 277 && head -c 1024 /dev/urandom >munge/key)
cat >slurm.conf <<EOF
ClusterName=here
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmUser=root
SlurmctldPort=$PORT_OF_CONTROLLER
SlurmdPort=$PORT_OF_NODE
AuthInfo=socket=$WORK/slurm/munge/socket
StateSaveLocation=$WORK/slurm/state
SlurmdSpoolDir=$WORK/slurm/spool
SlurmctldPidFile=$WORK/slurm/slurmctld.pid
SlurmdPidFile=$WORK/slurm/slurmd.pid
SlurmctldLogFile=$WORK/slurm/slurmctld.log
SlurmdLogFile=$WORK/slurm/slurmd.log
SlurmdParameters=config_overrides
SelectType=select/cons_tres
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
GresTypes=gpu
SchedulerParameters=batch_sched_delay=0,sched_min_interval=1
NodeName=$(hostname) NodeAddr=127.0.0.1 CPUs=4 Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
EOF
echo "NodeName=$(hostname) Name=gpu File=$WORK/gpu[0-1]" >gres.conf
ln -sf /dev/null "$WORK/gpu0"
ln -sf /dev/zero "$WORK/gpu1"
munged --force --key-file="$PWD/munge/key" --socket="$PWD/munge/socket" --pid-file="$PWD/munge/pid" \
    --log-file="$PWD/munge/log" --seed-file="$PWD/munge/seed"
slurmctld
slurmd
for glance in $(seq 100); do
    sinfo --noheader --format=%t | grep -qx idle && break
    sleep 0.1
done
cd "$HOME"
set +e
"#;

const SECOND_GPU: &str = "
mkdir -p /proc/driver/nvidia/gpus/0000:01:00.0
: >/dev/nvidia1
sed 's/00:00.0/01:00.0/; /Minor/s/0/1/' /proc/driver/nvidia/gpus/0000:00:00.0/information \\
    >/proc/driver/nvidia/gpus/0000:01:00.0/information
";

/// The block of the two documents with this name.
fn block(name: &str) -> String {
    let document: String = ["docs/clusters.md", "docs/slurm.md"]
        .map(|path| Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .concat();
    let marks =
        ["run", "used"].map(|how| format!("<!-- {how} by tests/verify/clusters.rs as {name} -->"));
    let after = marks
        .iter()
        .find_map(|mark| document.split_once(mark))
        .expect(name)
        .1;
    let (_, code) = after
        .trim_start()
        .strip_prefix("```")
        .and_then(|it| it.split_once('\n'))
        .unwrap();
    code.split_once("```").unwrap().0.to_owned()
}

/// A machine with so many GPUs. The loader finds a cuDNN first that lacks its parts, and a whole one after it.
struct Cluster(GpuMachine, usize);

/// The output of a rank.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    number: usize,
    directory: String,
    gpu: String,
    view: String,
}

struct VersionEvidence {
    ranks: Vec<Rank>,
    text: String,
    status: Option<i32>,
}

impl Cluster {
    /// None where it cannot be had.
    fn new(gpus: usize, programs: &[&str]) -> Option<Cluster> {
        let is_here = |name: &&str| {
            let found = Command::new("bash")
                .args(["-lc", "command -v \"$0\"", name])
                .output();
            found.is_ok_and(|output| output.status.success())
        };
        // Daemons want the real root, and modules are for login shells.
        let probe = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "true"])
            .output();
        if !probe.is_ok_and(|output| output.status.success()) || !programs.iter().all(is_here) {
            assert!(
                std::env::var_os("CUDARUN_TESTS_ALL").is_none(),
                "root and {programs:?}"
            );
            skipped(&format!("this needs root and {}", programs.join(", ")));
            return None;
        }
        let machine = GpuMachine::new(&["whole"])?;
        stand_in::cudnn(&machine.workshop, "partial", 9);
        machine.workshop.write("home/train.py", TRAIN);
        let [whole, partial] =
            ["whole", "partial"].map(|it| machine.path(it).display().to_string());
        let add = |directory: &str| format!("prepend-path LD_LIBRARY_PATH {directory}\n");
        let cudnn = format!("#%Module\n{}{}", add(&whole), add(&partial));
        machine.workshop.write("modules/cudnn/9.19", &cudnn);
        let binaries = Path::new(CUDARUN).parent().unwrap().display();
        machine.workshop.write(
            "modules/cudarun",
            &format!("#%Module\nprepend-path PATH {binaries}\n"),
        );
        Some(Cluster(machine, gpus))
    }

    /// Runs shell code there, after a Slurm was started or not.
    fn run(&self, code: &str) -> VersionEvidence {
        let session = self.0.session(&["partial", "whole"]).of_root();
        let session = if self.1 == 2 {
            session.before(SECOND_GPU)
        } else {
            session
        };
        // The view tells whether all ranks have one set.
        let session = session.set("CUDARUN_PIN_MODE", "view");
        let session = session.set("MODULEPATH", self.0.path("modules").display().to_string());
        // Open MPI counts processors, and asks root whether that is meant.
        let session = session
            .set("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let session = session.set("OMPI_MCA_rmaps_base_oversubscribe", "1");
        let [controller, node] = free_ports();
        let session = session
            .set("PORT_OF_CONTROLLER", controller)
            .set("PORT_OF_NODE", node);
        let session = session.set("SBATCH_WAIT", "1").set("USER", self.user());
        let output = session.shell(&format!("export PATH=\"${{CUDARUN%/*}}:$PATH\"\n{code}"));
        let (out, err) = texts(&output);
        VersionEvidence {
            ranks: ranks(&out),
            text: format!("{out}{err}"),
            status: output.status.code(),
        }
    }

    /// A user name that occurs nowhere else in `/tmp`.
    fn user(&self) -> String {
        self.0
            .path("")
            .file_name()
            .unwrap()
            .to_string_lossy()
            .replace('.', "")
    }

    /// How often a GPU was tried.
    fn proofs(&self) -> usize {
        self.0.proofs().1
    }
}

/// Two ports without a listener, so that each test can have a Slurm of its own.
fn free_ports() -> [String; 2] {
    let listeners = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port().to_string())
}

fn rank(line: &str) -> Option<Rank> {
    let mut words = line.strip_prefix("rank ")?.split(' ').map(str::to_owned);
    let number = words.next()?.parse().ok()?;
    Some(Rank {
        number,
        directory: words.next()?,
        gpu: words.next()?,
        view: words.next()?,
    })
}

fn ranks(text: &str) -> Vec<Rank> {
    let mut ranks: Vec<Rank> = text.lines().filter_map(rank).collect();
    ranks.sort();
    ranks
}

impl VersionEvidence {
    fn of_job(text: &str) -> VersionEvidence {
        let status = text
            .lines()
            .find_map(|line| line.strip_prefix("status ")?.parse().ok());
        VersionEvidence {
            ranks: ranks(text),
            text: text.to_owned(),
            status,
        }
    }

    /// So many ranks with the whole installation, in one view.
    #[track_caller]
    fn are_alike(&self, count: usize) -> &VersionEvidence {
        let numbers: Vec<usize> = self.ranks.iter().map(|rank| rank.number).collect();
        assert_eq!(numbers, (0..count).collect::<Vec<_>>(), "{}", self.text);
        assert!(
            self.ranks.iter().all(|rank| rank.directory == "whole"),
            "{}",
            self.text
        );
        let views: BTreeSet<&str> = self.ranks.iter().map(|rank| rank.view.as_str()).collect();
        assert!(views.len() == 1 && !views.contains("None"), "{}", self.text);
        assert_eq!(self.status, Some(0), "{}", self.text);
        self
    }

    /// The control: what the loader gives to four.
    #[track_caller]
    fn are_without(&self) {
        let is_so = |rank: &Rank| rank.directory == "partial" && rank.view == "None";
        assert!(
            self.ranks.len() == 4 && self.ranks.iter().all(is_so),
            "{}",
            self.text
        );
    }

    fn gpus(&self) -> Vec<&str> {
        self.ranks.iter().map(|rank| rank.gpu.as_str()).collect()
    }
}

fn without(code: &str) -> String {
    assert!(code.contains("cudarun "));
    code.replace("cudarun ", "")
}

const SLURM_PROGRAMS: [&str; 5] = ["munged", "slurmctld", "slurmd", "srun", "sbatch"];

#[test]
fn ranks_of_slurm_have_one_set_and_one_proof() {
    let Some(cluster) = Cluster::new(1, &SLURM_PROGRAMS) else {
        return;
    };
    let srun = block("srun");
    cluster
        .run(&format!("{SLURM}{}", without(&srun)))
        .are_without();
    assert_eq!(cluster.proofs(), 0);
    cluster.run(&format!("{SLURM}{srun}")).are_alike(4);
    assert_eq!(cluster.proofs(), 1);
    cluster.run(&format!("{SLURM}{srun}")).are_alike(4);
    assert_eq!(cluster.proofs(), 0, "another job, the same machine");
    // Without a set, each rank says so and ends.
    let refused = srun.replace("cudarun ", "cudarun --require 'cudnn>=99' ");
    let said = cluster.run(&format!("{SLURM}{refused}"));
    assert_eq!(
        (said.status, said.ranks.len()),
        (Some(125), 0),
        "{}",
        said.text
    );
    assert_eq!(
        said.text.matches("error: no cuDNN here fits").count(),
        4,
        "{}",
        said.text
    );
    let said = cluster.run(&format!("{SLURM}cudarun {}", without(&srun)));
    assert!(
        said.text
            .contains("`srun` starts its program on another machine"),
        "{}",
        said.text
    );
}

/// A Slurm of three nodes, which are this machine by three names.
fn three_nodes() -> String {
    let [before, after] = [
        "NodeName=$(hostname) NodeAddr",
        "NodeName=gpu[01-03] NodeHostname=$(hostname) NodeAddr",
    ];
    let ports =
        "CPUs=2 Port=$PORT_OF_NODE,$((PORT_OF_NODE + 1)),$((PORT_OF_NODE + 2)) State=UNKNOWN";
    let conf = SLURM
        .replace(before, after)
        .replace("CPUs=4 Gres=gpu:2 State=UNKNOWN", ports);
    let conf = conf
        .replace("GresTypes=gpu\n", "")
        .replace("slurmd.pid", "slurmd.%n.pid");
    let conf = conf.replace(
        "/slurm/spool\nSlurmctldPid",
        "/slurm/spool.%n\nSlurmctldPid",
    );
    let conf = conf.replace(
        "echo \"NodeName=$(hostname) Name=gpu File=$WORK/gpu[0-1]\" >gres.conf\n",
        "",
    );
    let start =
        "for number in 01 02 03; do mkdir -p spool.gpu$number && slurmd -N gpu$number; done\n";
    let conf = conf.replace("\nslurmd\n", &format!("\n{start}"));
    conf.replace(
        "grep -qx idle",
        "grep -qx idle && [ \"$(sinfo --noheader --format=%D --states=idle)\" = 3 ]",
    )
}

#[test]
fn a_job_starts_only_where_its_program_works() {
    let Some(cluster) = Cluster::new(1, &SLURM_PROGRAMS) else {
        return;
    };
    let collect = block("fleet-collect").replace("--nodes=9", "--nodes=3");
    let exclude = block("fleet-exclude");
    // A node on which nothing works.
    let damage = r#"sed -i 's/"stops":null/"stops":"no"/' machines/gpu02.json"#;
    let ask = "cudarun fleet machines; echo bad \"$(cudarun fleet --bad machines)\"";
    let show = |code: &str| code.replace("cudarun python3 train.py", "printenv SLURMD_NODENAME");
    let without = "echo all; srun --nodes=3 printenv SLURMD_NODENAME";
    let code = format!(
        ": >/dev/nvidia-uvm\n{}{collect}{ask}\n{damage}\n{ask}\necho rest\n{}\n{without}",
        three_nodes(),
        show(&exclude)
    );
    let said = cluster.run(&code).text;
    let at = |part: &str| said.find(part).unwrap_or_else(|| panic!("{part}\n{said}"));
    assert!(
        at("works on all of 3 machines") < at("gpu[01-03]"),
        "{said}"
    );
    assert!(
        at("bad \n") < at("works on 2 of 3 machines") && at("works on 2 of 3") < at("bad gpu02\n"),
        "{said}"
    );
    let (rest, all) = said
        .split_once("\nrest\n")
        .unwrap()
        .1
        .split_once("all\n")
        .unwrap();
    let nodes = |text: &str| {
        text.lines()
            .filter(|line| line.starts_with("gpu"))
            .map(str::to_owned)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(
        nodes(rest),
        ["gpu01", "gpu03"].map(str::to_owned).into(),
        "{said}"
    );
    assert_eq!(nodes(all).len(), 3, "the control: {said}");
}

#[test]
fn open_mpi_collects_descriptions() {
    let Some(cluster) = Cluster::new(1, &["mpirun"]) else {
        return;
    };
    let said = cluster
        .run(&format!(
            ": >/dev/nvidia-uvm\n{}cudarun fleet machines",
            block("fleet-collect-mpirun")
        ))
        .text;
    assert!(said.contains("works on 1 of 1 machine"), "{said}");
}

#[test]
fn ranks_of_open_mpi_have_one_set_and_one_proof() {
    let Some(cluster) = Cluster::new(1, &["mpirun"]) else {
        return;
    };
    let mpirun = block("mpirun");
    cluster.run(&without(&mpirun)).are_without();
    assert_eq!(cluster.proofs(), 0);
    cluster.run(&mpirun).are_alike(4);
    assert_eq!(cluster.proofs(), 1);
    // And where cudarun starts mpirun.
    let outside = cluster.run(&format!("cudarun {}", without(&mpirun)));
    outside.are_alike(4);
    assert_eq!(cluster.proofs(), 0);
    // The module finds its ranks below mpirun.
    cluster
        .run(&format!(
            "export CUDARUN_PIN_MODE=audit\ncudarun {}",
            without(&mpirun)
        ))
        .are_alike(4);
}

#[test]
fn a_job_script_loads_modules_and_starts_ranks() {
    let Some(cluster) = Cluster::new(1, &[&SLURM_PROGRAMS[..], &["module"]].concat()) else {
        return;
    };
    let (sbatch, bare) = (
        block("sbatch"),
        without(&block("job.sh")).replace("load ", "load cudarun "),
    );
    let scripts =
        ["job.sh", "record.sh", "locked.sh", "local-cache.sh"].map(|name| (name, block(name)));
    // One after the other in one Slurm; after each, how often a GPU was tried until then.
    let mut code = SLURM.to_owned();
    for (script, text) in [("bare.sh", bare)].into_iter().chain(scripts) {
        cluster.0.workshop.write(&format!("home/{script}"), &text);
        code.push_str(&sbatch.replace("job.sh", script));
        code.push_str("echo \"status $?\"; cat slurm-*.out; rm slurm-*.out\n");
        code.push_str("echo \"proofs $(grep -sc ^convolved $STAND_IN_LOG)\"; echo \"-- \"\n");
    }
    let local = PathBuf::from(format!("/tmp/{}-cache", cluster.user()));
    let text = cluster.run(&code).text;
    let _ = std::fs::remove_dir_all(&local);
    let jobs: Vec<VersionEvidence> = text.split("-- \n").map(VersionEvidence::of_job).collect();
    let [bare, job, recorded, locked, in_local, _] = &jobs[..] else {
        panic!("{text}")
    };
    bare.are_without();
    assert!(job.are_alike(4).text.contains("proofs 1\n"), "{text}");
    assert_eq!(
        (recorded.ranks.len(), recorded.status),
        (1, Some(0)),
        "{text}"
    );
    assert!(recorded.text.contains(".cudarun.lock"), "{text}");
    locked.are_alike(4);
    assert!(in_local.are_alike(4).text.contains("proofs 2\n"), "{text}");
    assert!(
        in_local
            .ranks
            .iter()
            .all(|rank| Path::new(&rank.view).starts_with(&local)),
        "{text}"
    );
}

/// Jobs that hand on their environment, and jobs that hand on only what a rank needs here.
#[test]
fn ranks_of_slurm_follow_by_a_prolog() {
    let Some(cluster) = Cluster::new(1, &SLURM_PROGRAMS) else {
        return;
    };
    let prolog = block("task-prolog").replace("/opt/cudarun/bin/cudarun", CUDARUN);
    cluster.0.workshop.write("prolog", &prolog);
    let srun = without(&block("srun"));
    let needed = "LD_LIBRARY_PATH,PATH,HOME,STAND_IN_LOG,CUDARUN_PIN_MODE";
    let bare = srun.replace("srun ", &format!("srun --export={needed} "));
    let own = srun.replace("srun ", "srun --task-prolog=\"$WORK/prolog\" ");
    let of_all = SLURM.replace("MpiDefault", "TaskProlog=$WORK/prolog\nMpiDefault");
    let allow = "chmod 755 \"$WORK/prolog\"\n";
    cluster.run(&format!("{SLURM}{bare}")).are_without();
    assert_eq!(cluster.proofs(), 0);
    cluster.run(&format!("{allow}{SLURM}{own}")).are_alike(4);
    cluster.run(&format!("{allow}{of_all}{bare}")).are_alike(4);
    // An auditor of one's own comes first, and a rank that follows already keeps what it has.
    let said = cluster.run(&format!(
        "{allow}{of_all}export LD_AUDIT=/own.so\nsrun sh -c 'echo $LD_AUDIT' 2>/dev/null\n\
         eval \"$(LD_AUDIT= cudarun export --follow)\"\nsrun sh -c 'echo $LD_AUDIT' 2>/dev/null"
    ));
    let lines: Vec<&str> = said.text.lines().collect();
    let [first, second] = lines[..] else {
        panic!("{}", said.text)
    };
    assert!(
        first.starts_with("/own.so:/") && first == second,
        "{}",
        said.text
    );
    // Where it is not installed, ranks are as without it.
    let gone = prolog.replace(CUDARUN, "/nowhere/cudarun");
    cluster.0.workshop.write("prolog", &gone);
    cluster.run(&format!("{allow}{of_all}{bare}")).are_without();
}

#[test]
fn a_gpu_of_its_own_is_proved_for_each_rank() {
    let Some(cluster) = Cluster::new(2, &[&SLURM_PROGRAMS[..], &["mpirun"]].concat()) else {
        return;
    };
    cluster
        .0
        .workshop
        .write("home/one-gpu-each.sh", &block("one-gpu-each.sh"));
    let said = cluster.run(&format!(
        "chmod +x one-gpu-each.sh\n{}",
        block("one-gpu-each")
    ));
    assert_eq!(said.are_alike(2).gpus(), ["0", "1"]);
    assert_eq!(cluster.proofs(), 2);
    let said = cluster.run(&format!(
        "{SLURM}srun -n 2 --gpus-per-task=1 cudarun --verify=always python3 train.py"
    ));
    assert_eq!(said.are_alike(2).gpus(), ["0", "1"]);
    assert_eq!(cluster.proofs(), 2);
}
