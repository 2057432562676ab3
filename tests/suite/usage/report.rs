//! `tenfill report`, `man` and `completions`.

use super::sample::{self, failure, output};

/// The page's drawings.
fn drawings(page: &str) -> Vec<&str> {
    page.split("<svg").skip(1).map(|rest| rest.split("</svg>").next().unwrap()).collect()
}

fn check(page: &str) -> usize {
    for outside in ["src=", "@import", "url(", "<script", "href=\"http"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let drawings = drawings(page);
    for drawing in &drawings {
        let marks = drawing.split('<').filter(|tag| tag.contains("var(--s")).count();
        assert!(marks > 0, "a plot without marks: {}", &drawing[..200.min(drawing.len())]);
        assert!(!drawing.contains("fill=\"#") && !drawing.contains("stroke=\"#"), "a colour of its own");
        assert!(!drawing.contains("NaN"), "a number that is none");
    }
    drawings.len()
}

#[test]
fn a_run_and_a_comparison_have_their_plots() {
    let folder = crate::common::folder();
    let folder = folder.path();
    for extra in ["--bias modes --penalty 0.01", "--bias none --penalty 0"] {
        sample::complete(folder, 3, extra);
        std::fs::rename(folder.join("run"), folder.join(format!("run{}", extra.len()))).unwrap();
    }
    let found = crate::common::run(folder, ["report", "run27", "-o", "pages/one.html"]);
    let page = std::fs::read_to_string(folder.join("pages/one.html")).unwrap();
    assert_eq!(check(&page) as u64, found["plots"].as_u64().unwrap());
    for what in [
        "Error by iteration",
        "Rank by iteration",
        "Time per pass",
        "Bytes read per pass",
        "By activity of user",
        "The core by component",
        "Components over week",
        "The strongest ids of each component",
        "film &quot;",
    ] {
        assert!(page.contains(what), "{what}");
    }
    crate::common::run(folder, ["report", "run27", "run23", "-o", "two.html"]);
    let page = std::fs::read_to_string(folder.join("two.html")).unwrap();
    assert!(check(&page) >= 5);
    assert!(page.contains("<th scope=\"row\">run27</th>") && page.contains("<th scope=\"row\">run23</th>"));
    let said = failure(folder, &["report", "run27", "-o", "two.html"]);
    assert!(said.contains("two.html exists already: --force replaces it"), "{said}");
    let said = failure(folder, &["report", "run27", "nowhere", "-o", "three.html"]);
    assert!(said.contains("there is no such run") && !folder.join("three.html").exists(), "{said}");
}

#[test]
fn labels_cannot_become_markup() {
    let folder = crate::common::folder();
    let folder = folder.path();
    let rows: String = (0..400)
        .map(|n| format!("<script>alert({})</script>,&amp;{},{}\n", n % 20, n / 20, 1 + n * 7 % 5))
        .collect();
    std::fs::write(folder.join("bad.csv"), format!("<b>user</b>,item,stars\n{rows}")).unwrap();
    let line = ["complete", "bad.csv", "-o", "<i>run", "--rank", "2", "--max-iterations", "5"];
    crate::common::run(folder, line);
    output(folder, &["report", "<i>run", "-o", "page.html"]);
    let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
    check(&page);
    assert!(!page.contains("<b>user") && !page.contains("<i>run") && page.contains("&lt;script&gt;alert("));
}

#[test]
fn manual_pages_and_completions_name_every_command() {
    let folder = crate::common::folder();
    let folder = folder.path();
    output(folder, &["man", "-o", "man1"]);
    let help = output(folder, &["--help"]);
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(commands.len() >= 13, "{commands:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = output(folder, &["completions", shell]);
        assert!(commands.iter().all(|command| script.contains(command)), "{shell}");
    }
    for command in commands {
        let page = std::fs::read_to_string(folder.join(format!("man1/tenfill-{command}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{command}");
        let help = output(folder, &[command, "--help"]);
        assert!(
            help.contains("xample") && help.contains(&format!("tenfill {command}")),
            "{command} has no example"
        );
    }
}
