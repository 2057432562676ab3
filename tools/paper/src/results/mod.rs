//! RESULTS.md: the paper's claims, our figures, and whether the claims hold, from the CSV files of the
//! cases.

mod claims;
mod real;
mod table;

use crate::Result;
use crate::cases::CASES;
use crate::record::Book;
use std::path::Path;

/// What one case came to.
pub struct Finding {
    /// What the paper says.
    pub claim: String,
    /// `holds`, `holds in part` or `does not hold`, and why.
    pub verdict: String,
    /// The figures.
    pub body: String,
}

/// The file that says how a case was run.
pub const ABOUT: &str = "about.txt";

const HEAD: &str = "\
# The paper's claims, and what we find

H. Kasai and B. Mishra, *Riemannian preconditioning for tensor completion*. This file is written by
`paper results` from the CSV files that the cases leave behind; every verdict is computed from them. `ours`
is the paper's proposed method as this engine has it; geomCG runs on the same kernels, from the same starts,
in the same process, so that iterations and times can be compared. Times are processor seconds of both
threads; the machine was shared. Runs end at a train MSE of 1e-12 or after 250 iterations unless said
otherwise; numbers are medians over the seeds.

";

/// Figures that go along, by case: the ends of their names, and what they show.
const SHOWN: [(&str, &str, &str); 4] = [
    ("S3", "10000_3_r5_OS10-train-time.svg", "Train MSE against time, 10000^3"),
    ("S4", "10000_3_r5_OS4-test-iterations.svg", "Test MSE against iterations, OS 4"),
    (
        "R1",
        "band16-OS11.png",
        "Band 16 at OS 11: original; ours and geomCG from the raw start; ours and geomCG from the scaled start; TOpt, \
         HaLRTC, Latent, Hard",
    ),
    ("R2", "weeks.svg", "The components over the weeks, rank 4"),
];

/// Copies the figures of a case beside the results; what refers to them.
fn shown(case: &str, folder: &Path, to: &Path) -> Result<String> {
    let mut text = String::new();
    for (_, name, what) in SHOWN.iter().filter(|(of, _, _)| *of == case) {
        if !folder.join(name).is_file() {
            continue;
        }
        let figures = to.parent().unwrap_or(Path::new("")).join("figures");
        std::fs::create_dir_all(&figures).map_err(|error| format!("{}: {error}", figures.display()))?;
        let file = format!("{case}-{name}");
        std::fs::copy(folder.join(name), figures.join(&file)).map_err(|error| format!("{file}: {error}"))?;
        text += &format!("\n![{what}](figures/{file})\n\n*{what}.*\n");
    }
    Ok(text)
}

/// Writes the results of all cases that were run.
///
/// # Errors
///
/// Where no case was run, or a file cannot be read or written.
pub fn results(out: &Path, to: &Path) -> Result<()> {
    let mut text = HEAD.to_string();
    let mut summary = "| case | the paper's claim | finding |\n|---|---|---|\n".to_string();
    let mut sections = String::new();
    let mut found = 0;
    for case in CASES.into_iter().chain(["R1", "R2"]) {
        let folder = out.join(case);
        let Some(book) = Book::read(&folder)? else {
            summary += &format!("| {case} | | not run |\n");
            continue;
        };
        found += 1;
        let finding = claims::find(case, &book, &folder);
        let about = std::fs::read_to_string(folder.join(ABOUT)).unwrap_or_default();
        summary +=
            &format!("| [{case}](#{}) | {} | {} |\n", case.to_lowercase(), finding.claim, finding.verdict);
        sections += &format!(
            "## {case}\n\n**Claim.** {}\n\n**Finding.** {}\n\n{}\n\n{}{}\n",
            finding.claim,
            finding.verdict,
            about.trim(),
            finding.body,
            shown(case, &folder, to)?
        );
    }
    if found == 0 {
        return Err(format!(
            "{}: no case was run into this folder; run `paper all --quick` first",
            out.display()
        ));
    }
    text += &summary;
    text += "\n";
    text += &sections;
    let whole = text.trim_end().to_string() + "\n";
    std::fs::write(to, whole).map_err(|error| format!("{}: {error}", to.display()))
}
