//! Detects this process's rank, the number of ranks and the run's name from options or the launcher's environment variables.
//!
//! Without either, all roles run as local processes.

use super::rank_options::RankOptions;
use crate::limits::{RANKS_MAX, RENDEZVOUS_BYTES_MAX};

/// This process's rank in a run on many hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankMembership {
    /// Rank 0 is the controller.
    pub rank: usize,
    /// The number of ranks.
    pub ranks: usize,
    /// The run's name, the same on every rank.
    pub name: String,
    /// The launcher that started this process.
    pub launcher: &'static str,
}

/// The variables that one launcher sets.
struct LauncherVariables {
    launcher: &'static str,
    rank: Option<(&'static str, usize)>,
    ranks: Option<(&'static str, usize)>,
    job: Option<String>,
}

/// Detects the rank. `variable` reads the environment.
///
/// # Errors
/// Contradictory or incomplete variables, or a rank out of range.
pub fn detect(
    variable: &dyn Fn(&str) -> Option<String>,
    options: &RankOptions,
) -> Result<Option<RankMembership>, String> {
    // If both are given as options, variables are not read and cannot contradict them.
    let variables = match (options.rank, options.ranks) {
        (Some(_), Some(_)) => LauncherVariables { launcher: "--rank and --ranks", rank: None, ranks: None, job: None },
        _ => read_variables(variable)?,
    };
    let rank = options.rank.map(|rank| ("--rank", rank)).or(variables.rank);
    let ranks = options.ranks.map(|ranks| ("--ranks", ranks)).or(variables.ranks);
    let ((rank_source, rank), (ranks_source, ranks)) = match (rank, ranks) {
        (Some(rank), Some(ranks)) => (rank, ranks),
        (None, None) if options.any() => {
            return Err(
                "--rendezvous, --agent-rank and --roles are for runs under mpirun or srun, or with --rank and --ranks"
                    .to_owned(),
            );
        }
        (None, None) => return Ok(None),
        (Some((name, _)), None) => {
            return Err(format!("{name} is set, but not how many ranks there are: give --ranks N"));
        }
        (None, Some((name, _))) => return Err(format!("{name} is set, but not which rank this is: give --rank R")),
    };
    if rank >= ranks {
        return Err(format!(
            "{rank_source} is {rank}, but {ranks_source} says that there are {ranks} ranks, counted from 0"
        ));
    }
    if ranks == 1 {
        // Under a launcher that starts a single process, the command runs as from a shell.
        return if options.ranks == Some(1) {
            Err("at least 2 ranks are needed: rank 0 controls, the others run roles".to_owned())
        } else {
            Ok(None)
        };
    }
    let launcher = variables.launcher;
    let name = options.rendezvous.clone().or(variables.job).ok_or_else(|| {
        format!("{launcher} names no job: give --rendezvous NAME, the same on every rank and for no other run on this broker")
    })?;
    Ok(Some(RankMembership { rank, ranks, name, launcher }))
}

/// The variables of the innermost launcher, which started *this process*. A Slurm step may run `mpirun`, whose daemons pass on
/// Slurm's variables with their own numbers, so Slurm's variables count only if no other launcher has set any.
fn read_variables(variable: &dyn Fn(&str) -> Option<String>) -> Result<LauncherVariables, String> {
    let number = |name: &'static str| match variable(name) {
        None => Ok(None),
        Some(text) => match text.trim().parse::<usize>() {
            Ok(number) if number <= RANKS_MAX => Ok(Some((name, number))),
            _ => Err(format!("the variable {name} is '{text}', which is not a rank number")),
        },
    };
    let slurm = slurm(variable, &number)?;
    let open_mpi = (number("OMPI_COMM_WORLD_RANK")?, number("OMPI_COMM_WORLD_SIZE")?);
    let pmi = (number("PMI_RANK")?, number("PMI_SIZE")?);
    let pmix = number("PMIX_RANK")?;
    let rank = agreed_value(&[open_mpi.0, pmi.0, pmix])?;
    let ranks = agreed_value(&[open_mpi.1, pmi.1])?;
    // `srun --mpi=pmi2
    // pmix` adds PMI or PMIx variables to its own; if they agree, Slurm started this process.
    let same = |ours: Option<(&str, usize)>, theirs: Option<(&str, usize)>| match (ours, theirs) {
        (Some((_, ours)), Some((_, theirs))) => ours == theirs,
        _ => true,
    };
    if open_mpi.0.is_none() && slurm.rank.is_some() && same(rank, slurm.rank) && same(ranks, slurm.ranks) {
        return Ok(slurm);
    }
    let launcher = match (open_mpi.0, pmi.0) {
        (Some(_), _) => "Open MPI",
        (None, Some(_)) => "Hydra (PMI)",
        (None, None) => "PMIx",
    };
    let job = ["OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"].into_iter().find_map(variable).map(|job| sanitized(&job));
    Ok(LauncherVariables { launcher, rank, ranks, job })
}

/// Slurm's variables, only in a step of several tasks: batch scripts and allocation shells have some of them too.
fn slurm(
    variable: &dyn Fn(&str) -> Option<String>,
    number: &dyn Fn(&'static str) -> Result<Option<(&'static str, usize)>, String>,
) -> Result<LauncherVariables, String> {
    let nothing = LauncherVariables { launcher: "Slurm", rank: None, ranks: None, job: None };
    // Batch scripts and allocations have step names, or numbers near the end of the range.
    const STEPS_MAX: u64 = 0xffff_fff0;
    let step = ["SLURM_STEP_ID", "SLURM_STEPID"].into_iter().find_map(variable);
    let Some(step) = step.and_then(|step| step.parse::<u64>().ok()).filter(|&step| step < STEPS_MAX) else {
        return Ok(nothing);
    };
    let ranks = number("SLURM_STEP_NUM_TASKS")?.or(number("SLURM_NTASKS")?);
    let job = ["SLURM_JOB_ID", "SLURM_JOBID"].into_iter().find_map(variable);
    match (number("SLURM_PROCID")?, ranks) {
        (Some(rank), Some(ranks)) if ranks.1 > 1 => Ok(LauncherVariables {
            rank: Some(rank),
            ranks: Some(ranks),
            job: job.map(|job| sanitized(&format!("{job}.{step}"))),
            ..nothing
        }),
        _ => Ok(nothing),
    }
}

/// The value of several variables if all that are set agree.
fn agreed_value(values: &[Option<(&'static str, usize)>]) -> Result<Option<(&'static str, usize)>, String> {
    let mut values = values.iter().flatten();
    let Some(&first) = values.next() else { return Ok(None) };
    match values.find(|other| other.1 != first.1) {
        None => Ok(Some(first)),
        Some((name, number)) => Err(format!(
            "{} is {} and {name} is {number}: two launchers in one another; say which counts by --rank R --ranks N --rendezvous NAME",
            first.0, first.1
        )),
    }
}

/// Turns a job's name into a part of a queue name.
fn sanitized(job: &str) -> String {
    let good = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' };
    job.trim().chars().map(good).take(RENDEZVOUS_BYTES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `variables` is `NAME=value …`, `options` a command line.
    #[track_caller]
    fn check(variables: &str, options: &str, expected: &str) {
        let variable = |name: &str| {
            variables.split_whitespace().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
        };
        let words: Vec<String> = options.split_whitespace().map(str::to_owned).collect();
        let (given, _) = RankOptions::extract(&words).expect("good options");
        let shown = match detect(&variable, &given) {
            Ok(None) => "local".to_owned(),
            Ok(Some(RankMembership { rank, ranks, name, launcher })) => {
                format!("{rank} of {ranks} in {name} by {launcher}")
            }
            Err(why) => why.split(": ").next().unwrap_or_default().to_owned(),
        };
        assert_eq!(shown, expected, "{variables} {options}");
    }

    #[test]
    fn without_a_launcher_all_is_local() {
        check("PATH=x", "", "local");
        check("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 PMIX_NAMESPACE=j", "", "local");
        check("PMI_RANK=0 PMI_SIZE=1", "", "local");
        check(
            "",
            "--roles publisher=1",
            "--rendezvous, --agent-rank and --roles are for runs under mpirun or srun, or with --rank and --ranks",
        );
    }

    #[test]
    fn open_mpi() {
        let four = "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3 PMIX_RANK=2 PMIX_NAMESPACE=1476263937 OMPI_MCA_ess_base_jobid=1476263937";
        check(four, "", "2 of 3 in 1476263937 by Open MPI");
        check(four, "--rendezvous x", "2 of 3 in x by Open MPI");
        check(
            "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3 PMIX_RANK=1 PMIX_NAMESPACE=prterun-h-7@1",
            "",
            "1 of 3 in prterun-h-7-1 by Open MPI",
        );
        check(
            "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3 PMIX_RANK=2",
            "",
            "OMPI_COMM_WORLD_RANK is 1 and PMIX_RANK is 2",
        );
        check(
            "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=3",
            "",
            "OMPI_COMM_WORLD_RANK is 3, but OMPI_COMM_WORLD_SIZE says that there are 3 ranks, counted from 0",
        );
        check(
            "OMPI_COMM_WORLD_RANK=x OMPI_COMM_WORLD_SIZE=3",
            "",
            "the variable OMPI_COMM_WORLD_RANK is 'x', which is not a rank number",
        );
        check("OMPI_COMM_WORLD_SIZE=3", "", "OMPI_COMM_WORLD_SIZE is set, but not which rank this is");
        check("OMPI_COMM_WORLD_RANK=1", "", "OMPI_COMM_WORLD_RANK is set, but not how many ranks there are");
        // Its daemons run as a step of Slurm, one a node, and hand that step's numbers on.
        check(
            &format!("{four} SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=7"),
            "",
            "2 of 3 in 1476263937 by Open MPI",
        );
    }

    #[test]
    fn hydra_names_no_job() {
        check("PMI_RANK=1 PMI_SIZE=3", "--rendezvous x", "1 of 3 in x by Hydra (PMI)");
        check("PMI_RANK=1 PMI_SIZE=3", "", "Hydra (PMI) names no job");
        check(
            "PMI_RANK=1 PMI_SIZE=3 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=7",
            "",
            "Hydra (PMI) names no job",
        );
    }

    #[test]
    fn pmix_alone_does_not_say_how_many() {
        check("PMIX_RANK=1 PMIX_NAMESPACE=j", "", "PMIX_RANK is set, but not how many ranks there are");
        check("PMIX_RANK=1 PMIX_NAMESPACE=j", "--ranks 2", "1 of 2 in j by PMIx");
    }

    #[test]
    fn slurm_in_a_step_of_several_tasks() {
        check("SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_STEP_ID=0 SLURM_JOB_ID=77", "", "1 of 4 in 77.0 by Slurm");
        check(
            "SLURM_PROCID=1 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=4 SLURM_STEPID=2 SLURM_JOBID=77",
            "",
            "1 of 4 in 77.2 by Slurm",
        );
        check("SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=0 SLURM_JOB_ID=77", "", "local");
        // The script of a batch job.
        check("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=77", "", "local");
        check("SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_JOB_ID=77 SLURM_STEP_ID=4294967291", "", "local");
        check(
            "SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_STEP_ID=0 SLURM_JOB_ID=77 PMI_RANK=1 PMI_SIZE=4",
            "",
            "1 of 4 in 77.0 by Slurm",
        );
        check(
            "SLURM_PROCID=1 SLURM_NTASKS=4 SLURM_STEP_ID=0 SLURM_JOB_ID=77 PMIX_RANK=1 PMIX_NAMESPACE=slurm.pmix.77.0",
            "",
            "1 of 4 in 77.0 by Slurm",
        );
    }

    #[test]
    fn options_come_before_variables() {
        check("", "--rank 1 --ranks 2 --rendezvous x", "1 of 2 in x by --rank and --ranks");
        check("", "--rank 1 --ranks 2", "--rank and --ranks names no job");
        check(
            "",
            "--rank 2 --ranks 2 --rendezvous x",
            "--rank is 2, but --ranks says that there are 2 ranks, counted from 0",
        );
        check("", "--rank 0 --ranks 1 --rendezvous x", "at least 2 ranks are needed");
        check("", "--rank 0", "--rank is set, but not how many ranks there are");
        check("", "--ranks 3", "--ranks is set, but not which rank this is");
        check(
            "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=6 PMIX_NAMESPACE=j",
            "--rank 1 --ranks 2 --rendezvous x",
            "1 of 2 in x by --rank and --ranks",
        );
        // Contradictions still matter to nobody who says which rank counts.
        check(
            "OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=6 PMIX_RANK=1",
            "--rank 1 --ranks 2 --rendezvous x",
            "1 of 2 in x by --rank and --ranks",
        );
    }
}
