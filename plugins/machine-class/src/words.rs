//! Sentences about several things: stable, sorted, and no longer than a person reads.

/// Names shown before the rest is only counted.
const NAMES_SHOWN_MAX: usize = 3;

/// `1 machine still refers to this class: a`, `5 machines still refer to this class: a, b, c and 2 more`.
pub(crate) fn still_refer(things: &str, to: &str, names: &[String]) -> String {
    let (plural, verb) = if names.len() == 1 { ("", "refers") } else { ("s", "refer") };
    format!("{} {things}{plural} still {verb} to {to}: {}", names.len(), listed(names))
}

/// `a`, `a, b`, `a, b, c and 2 more`, in order.
pub(crate) fn listed(names: &[String]) -> String {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let shown = sorted.iter().take(NAMES_SHOWN_MAX).copied().collect::<Vec<_>>().join(", ");
    match sorted.len().saturating_sub(NAMES_SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_sorted_and_cut_to_three_names() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(still_refer("machine", "it", &names("m")), "1 machine still refers to it: m");
        assert_eq!(still_refer("machine", "it", &names("b a")), "2 machines still refer to it: a, b");
        assert_eq!(
            still_refer("machine", "it", &names("e d c b a")),
            "5 machines still refer to it: a, b, c and 2 more"
        );
    }
}
