//! What functions there are: their arguments and results. A capital letter stands for any type, the same one each time.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::types::Type;

/// One way to call a function.
#[derive(Debug)]
pub(super) struct Overload {
    /// The target of a method comes first.
    pub(super) arguments: Vec<Type>,
    pub(super) result: Type,
}

/// Functions, and methods (whose names begin with a dot here).
pub(super) fn overloads(name: &str, method: bool) -> &'static [Overload] {
    static TABLE: OnceLock<BTreeMap<String, Vec<Overload>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut table: BTreeMap<String, Vec<Overload>> = BTreeMap::new();
        for line in
            SIGNATURES.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (name, overload) = read(line);
            table.entry(name).or_default().push(overload);
        }
        table
    });
    let key = if method { format!(".{name}") } else { name.to_owned() };
    table.get(&key).map(Vec::as_slice).unwrap_or_default()
}

/// `string.startsWith(string) bool` or `size(list<A>) int`.
fn read(line: &str) -> (String, Overload) {
    let open = line.find('(').unwrap_or(0);
    let close = line.rfind(')').unwrap_or(line.len() - 1);
    let head = &line[..open];
    let mut arguments: Vec<Type> = split(&line[open + 1..close]).into_iter().map(read_type).collect();
    let result = read_type(line[close + 1..].trim());
    let namespaced = ["ip.", "math.", "sets.", "optional.", "format.", "cel.", "base64."]
        .iter()
        .any(|space| head.starts_with(space) && !head.contains('<') && !METHODS_OF_LIBRARY.contains(&head));
    match head.rsplit_once('.') {
        Some((target, method)) if !namespaced => {
            arguments.insert(0, read_type(target));
            (format!(".{method}"), Overload { arguments, result })
        }
        _ => (head.to_owned(), Overload { arguments, result }),
    }
}

/// Types of libraries have methods; their names are those of the functions that make them.
const METHODS_OF_LIBRARY: [&str; 8] = [
    "ip.family",
    "ip.isUnspecified",
    "ip.isLoopback",
    "ip.isLinkLocalMulticast",
    "ip.isLinkLocalUnicast",
    "ip.isGlobalUnicast",
    "format.validate",
    "optional.none_of",
];

fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

fn read_type(text: &str) -> Type {
    if let Some((outer, inner)) = text.strip_suffix('>').and_then(|text| text.split_once('<')) {
        let mut inner = split(inner).into_iter().map(read_type);
        let first = inner.next().unwrap_or(Type::Dyn);
        return match outer {
            "list" => Type::list(first),
            "map" => Type::map(first, inner.next().unwrap_or(Type::Dyn)),
            _ => Type::optional(first),
        };
    }
    match text {
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::Text,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "type" => Type::Kind,
        "url" => Type::Library("kubernetes.URL"),
        "quantity" => Type::Library("kubernetes.Quantity"),
        "ip" => Type::Library("net.IP"),
        "cidr" => Type::Library("net.CIDR"),
        "format" => Type::Library("kubernetes.NamedFormat"),
        "semver" => Type::Library("kubernetes.Semver"),
        text => match text.chars().next() {
            Some(name) if name.is_ascii_uppercase() => Type::Any(name),
            _ => Type::Dyn,
        },
    }
}

const SIGNATURES: &str = "
!_(bool) bool
_&&_(bool, bool) bool
_||_(bool, bool) bool
_?_:_(bool, A, A) A
-_(int) int
-_(double) double
_+_(int, int) int
_+_(uint, uint) uint
_+_(double, double) double
_+_(string, string) string
_+_(bytes, bytes) bytes
_+_(list<A>, list<A>) list<A>
_+_(duration, duration) duration
_+_(timestamp, duration) timestamp
_+_(duration, timestamp) timestamp
_-_(int, int) int
_-_(uint, uint) uint
_-_(double, double) double
_-_(duration, duration) duration
_-_(timestamp, duration) timestamp
_-_(timestamp, timestamp) duration
_*_(int, int) int
_*_(uint, uint) uint
_*_(double, double) double
_/_(int, int) int
_/_(uint, uint) uint
_/_(double, double) double
_%_(int, int) int
_%_(uint, uint) uint
_==_(A, A) bool
_!=_(A, A) bool
@in(A, list<A>) bool
@in(A, map<A, B>) bool
_[_](list<A>, int) A
_[_](map<A, B>, A) B
_[_](optional<list<A>>, int) optional<A>
_[_](optional<map<A, B>>, A) optional<B>
_[?_](list<A>, int) optional<A>
_[?_](map<A, B>, A) optional<B>
_[?_](optional<list<A>>, int) optional<A>
_[?_](optional<map<A, B>>, A) optional<B>
size(string) int
size(bytes) int
size(list<A>) int
size(map<A, B>) int
string.size() int
bytes.size() int
list<A>.size() int
map<A, B>.size() int
bool(bool) bool
bool(string) bool
int(int) int
int(uint) int
int(double) int
int(string) int
int(timestamp) int
int(duration) int
uint(uint) uint
uint(int) uint
uint(double) uint
uint(string) uint
double(double) double
double(int) double
double(uint) double
double(string) double
string(string) string
string(bool) string
string(int) string
string(uint) string
string(double) string
string(bytes) string
string(timestamp) string
string(duration) string
string(url) string
string(ip) string
string(cidr) string
bytes(bytes) bytes
bytes(string) bytes
duration(duration) duration
duration(string) duration
duration(int) duration
timestamp(timestamp) timestamp
timestamp(string) timestamp
timestamp(int) timestamp
type(A) type
dyn(A) dyn
string.contains(string) bool
string.startsWith(string) bool
string.endsWith(string) bool
string.matches(string) bool
matches(string, string) bool
string.charAt(int) string
string.indexOf(string) int
string.indexOf(string, int) int
string.lastIndexOf(string) int
string.lastIndexOf(string, int) int
string.lowerAscii() string
string.upperAscii() string
string.trim() string
string.replace(string, string) string
string.replace(string, string, int) string
string.split(string) list<string>
string.split(string, int) list<string>
string.substring(int) string
string.substring(int, int) string
string.reverse() string
string.format(list<dyn>) string
list<string>.join() string
list<string>.join(string) string
string.find(string) string
string.findAll(string) list<string>
string.findAll(string, int) list<string>
list<A>.isSorted() bool
list<A>.sum() A
list<A>.min() A
list<A>.max() A
list<A>.indexOf(A) int
list<A>.lastIndexOf(A) int
list<A>.distinct() list<A>
list<A>.reverse() list<A>
list<A>.sort() list<A>
list<A>.slice(int, int) list<A>
list<A>.flatten() list<dyn>
list<A>.first() optional<A>
list<A>.last() optional<A>
timestamp.getFullYear() int
timestamp.getFullYear(string) int
timestamp.getMonth() int
timestamp.getMonth(string) int
timestamp.getDate() int
timestamp.getDate(string) int
timestamp.getDayOfMonth() int
timestamp.getDayOfMonth(string) int
timestamp.getDayOfWeek() int
timestamp.getDayOfWeek(string) int
timestamp.getDayOfYear() int
timestamp.getDayOfYear(string) int
timestamp.getHours() int
timestamp.getHours(string) int
timestamp.getMinutes() int
timestamp.getMinutes(string) int
timestamp.getSeconds() int
timestamp.getSeconds(string) int
timestamp.getMilliseconds() int
timestamp.getMilliseconds(string) int
duration.getHours() int
duration.getMinutes() int
duration.getSeconds() int
duration.getMilliseconds() int
url(string) url
isURL(string) bool
url.getScheme() string
url.getHost() string
url.getHostname() string
url.getPort() string
url.getEscapedPath() string
url.getQuery() map<string, list<string>>
quantity(string) quantity
isQuantity(string) bool
quantity.isInteger() bool
quantity.asInteger() int
quantity.asApproximateFloat() double
quantity.sign() int
quantity.add(quantity) quantity
quantity.add(int) quantity
quantity.sub(quantity) quantity
quantity.sub(int) quantity
quantity.isGreaterThan(quantity) bool
quantity.isLessThan(quantity) bool
quantity.compareTo(quantity) int
ip(string) ip
isIP(string) bool
ip.isCanonical(string) bool
ip.family() int
ip.isUnspecified() bool
ip.isLoopback() bool
ip.isLinkLocalMulticast() bool
ip.isLinkLocalUnicast() bool
ip.isGlobalUnicast() bool
cidr(string) cidr
isCIDR(string) bool
cidr.containsIP(ip) bool
cidr.containsIP(string) bool
cidr.containsCIDR(cidr) bool
cidr.containsCIDR(string) bool
cidr.ip() ip
cidr.masked() cidr
cidr.prefixLength() int
format.named(string) optional<format>
format.dns1123Label() format
format.dns1123Subdomain() format
format.dns1035Label() format
format.qualifiedName() format
format.dns1123LabelPrefix() format
format.dns1123SubdomainPrefix() format
format.dns1035LabelPrefix() format
format.labelValue() format
format.uri() format
format.uuid() format
format.byte() format
format.date() format
format.datetime() format
format.validate(string) optional<list<string>>
semver(string) semver
semver(string, bool) semver
isSemver(string) bool
isSemver(string, bool) bool
semver.major() int
semver.minor() int
semver.patch() int
semver.isGreaterThan(semver) bool
semver.isLessThan(semver) bool
semver.compareTo(semver) int
sets.contains(list<A>, list<A>) bool
sets.equivalent(list<A>, list<A>) bool
sets.intersects(list<A>, list<A>) bool
optional.of(A) optional<A>
optional.ofNonZeroValue(A) optional<A>
optional.none() optional<A>
optional<A>.hasValue() bool
optional<A>.value() A
optional<A>.or(optional<A>) optional<A>
optional<A>.orValue(A) A
math.greatest(A) A
math.greatest(A, A) A
math.greatest(A, A, A) A
math.least(A) A
math.least(A, A) A
math.least(A, A, A) A
";

/// Types that are compared by order.
pub(super) fn ordered(ty: &Type) -> bool {
    matches!(
        ty.plain(),
        Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Text
            | Type::Bytes
            | Type::Duration
            | Type::Timestamp
            | Type::Dyn
    )
}
