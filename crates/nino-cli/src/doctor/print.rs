//! Facts and findings as text for a person.

use super::budget::what;
use super::facts::{Adapter, Architecture, Facts};
use super::rules::{Finding, Level};
use crate::bytes::Bytes;
use crate::plural::count;
use nino_engine::device::{AdapterKind, Budget, MemoryReading, MemorySource};
use std::fmt::Write;

/// The whole report, without a newline at the end.
pub(super) fn report(facts: &Facts, findings: &[Finding]) -> String {
    let mut page = Page(String::new());
    let s = &facts.system;
    let kernel = s
        .kernel
        .as_ref()
        .map(|k| format!(", kernel {k}"))
        .unwrap_or_default();
    page.title(&format!(
        "nino {} on {} {}{kernel}",
        facts.version, s.os, s.arch
    ));
    cpu(&mut page, facts);
    for adapter in &facts.adapters {
        gpu(&mut page, adapter);
    }
    if let Some(why) = &facts.no_adapter {
        page.title("gpu");
        page.line("none", why);
    }
    settings(&mut page, facts);
    environment(&mut page, facts);
    trouble(&mut page, findings);
    page.0.trim().to_owned()
}

/// A section's title at the margin, its facts indented with their names in one column.
struct Page(String);

impl Page {
    fn title(&mut self, text: &str) {
        let _ = write!(self.0, "\n{text}\n");
    }

    fn line(&mut self, name: &str, text: &str) {
        let line = format!("  {name:<13} {text}");
        self.0.push_str(line.trim_end());
        self.0.push('\n');
    }
}

fn cpu(page: &mut Page, facts: &Facts) {
    let (cpu, memory) = (&facts.cpu, &facts.memory);
    page.title(&format!("cpu  {}", cpu.model));
    let threads = count(cpu.threads, "thread");
    let cores = cpu
        .cores
        .map(|n| format!("{}, {threads}", count(n, "core")));
    page.line("cores", &cores.unwrap_or(threads));
    page.line("features", &or_none(&cpu.features.join(" ")));
    let precision = match cpu.bf16_products {
        Some(how) => format!(
            "auto is bf16 for SD 1.x's UNet ({how}, faster, within NMSE 1e-4), fp32 for the rest"
        ),
        None => "auto is fp32; bf16 only saves memory".to_owned(),
    };
    page.line("precision", &precision);
    let caches: Vec<String> = cpu
        .caches
        .iter()
        .map(|c| format!("{} {}", c.name, Bytes(c.bytes)))
        .collect();
    page.line("caches", &or_none(&caches.join(", ")));
    let figure = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), |b| Bytes(b).to_string());
    let memory_text = format!(
        "{} total, {} available",
        figure(memory.total),
        figure(memory.available)
    );
    page.line("memory", &memory_text);
    if let Some((bytes, group)) = &memory.limit {
        page.line(
            "limit",
            &format!("{} (control group {group})", Bytes(*bytes)),
        );
    }
    budget(page, memory.budget.as_ref());
}

fn gpu(page: &mut Page, a: &Adapter) {
    page.title(&format!("{}  {}", a.device, a.name));
    let kind = match a.kind {
        AdapterKind::Discrete => "graphics card",
        AdapterKind::Integrated => "integrated, shares system memory",
        AdapterKind::Virtual => "virtual",
        AdapterKind::Software => "software, used only when named",
        AdapterKind::Other => "of unknown kind",
    };
    let arch = |c: Architecture| format!("{} ({})", c.id, c.cards);
    page.line("kind", kind);
    page.line(
        "architecture",
        &a.architecture.map_or("unknown".to_owned(), arch),
    );
    let pci = if a.pci.is_empty() {
        String::new()
    } else {
        format!(" at {}", a.pci)
    };
    page.line(
        "PCI id",
        &format!("{:04x}:{:04x}{pci}", a.vendor_id, a.device_id),
    );
    let driver = format!("{} {}", a.driver, a.driver_info);
    page.line("driver", &format!("{} ({})", driver.trim(), a.backend));
    page.line("tiers", &a.tiers.join(", "));
    let (least, most) = a.subgroup;
    let lanes = if least == most {
        most.to_string()
    } else {
        format!("{least} to {most}")
    };
    let mut units = format!("subgroups of {lanes}");
    if let Some(n) = a.coop_size {
        let _ = write!(units, ", {n}x{n} matrices");
    }
    let f16 = if a.f16_arithmetic {
        ", f16 arithmetic"
    } else {
        ", no f16 arithmetic"
    };
    let clock = if a.timestamps {
        ""
    } else {
        ", no device timestamps"
    };
    let dots = if a.dot_products == Some(true) {
        ", int8 dot products"
    } else {
        ""
    };
    page.line("units", &format!("{units}{f16}{dots}{clock}"));
    let limits = format!(
        "{} per binding, {} per buffer, {} per workgroup",
        Bytes(a.max_binding),
        Bytes(a.max_buffer),
        Bytes(a.max_workgroup.into())
    );
    page.line("limits", &limits);
    for (i, reading) in a.memory.iter().enumerate() {
        page.line(if i == 0 { "memory" } else { "" }, &memory_reading(reading));
    }
    budget(page, a.budget.as_ref());
}

fn memory_reading(r: &MemoryReading) -> String {
    let source = match r.source {
        MemorySource::Host => "MemTotal, MemAvailable",
        other => other.name(),
    };
    let free = r
        .free
        .map(|f| format!(", {} free", Bytes(f)))
        .unwrap_or_default();
    format!("{} total{free}  ({source})", Bytes(r.total))
}

fn budget(page: &mut Page, budget: Option<&Budget>) {
    let Some(budget) = budget else {
        page.line("budget", "unknown: set it with --budget");
        return;
    };
    page.line(
        "budget",
        &format!("{}, the minimum of", Bytes(budget.bytes)),
    );
    for term in &budget.terms {
        let text = format!("{:>9}  {}", Bytes(term.bytes), what(term.limit));
        page.line("", &text);
    }
}

fn environment(page: &mut Page, facts: &Facts) {
    page.title("environment");
    if facts.environment.is_empty() {
        page.line("none", "no relevant variable is set");
    }
    for v in &facts.environment {
        let _ = writeln!(&mut page.0, "  {}={}\n    {}", v.name, v.value, v.about);
    }
}

fn settings(page: &mut Page, facts: &Facts) {
    page.title("settings");
    let config = &facts.config;
    let file = match &config.path {
        Some(path) if config.found => path.display().to_string(),
        Some(path) => format!("{} (does not exist)", path.display()),
        None => "no path: HOME and NINO_CONFIG are not set".to_owned(),
    };
    page.line("config file", &file);
    for (key, said) in &config.settings {
        page.line(key, &format!("{}  ({})", said.value, said.by));
    }
}

fn trouble(page: &mut Page, findings: &[Finding]) {
    page.title("findings");
    if findings.is_empty() {
        page.line("none", "no known problems with this machine");
    }
    for f in findings {
        let level = match f.level {
            Level::Problem => "problem",
            Level::Warning => "warning",
            Level::Note => "note",
        };
        let device = f
            .device
            .as_ref()
            .map(|d| format!(" ({d})"))
            .unwrap_or_default();
        let text = &mut page.0;
        let _ = writeln!(text, "  {level}{device}: {} [{}]", f.what, f.evidence);
        let _ = writeln!(text, "    do: {}", f.todo);
        if !f.source.is_empty() {
            let _ = writeln!(text, "    see: {}", f.source);
        }
    }
}

fn or_none(text: &str) -> String {
    if text.is_empty() {
        "unknown".to_owned()
    } else {
        text.to_owned()
    }
}
