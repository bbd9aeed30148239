//! What an expression is made of.

/// A place in the text, in characters.
pub(super) type Place = usize;

/// An expression and where it stands: an operator's at its sign, a call's at its parenthesis, a field's at its dot.
#[derive(Clone, Debug)]
pub(super) struct Expr {
    pub(super) at: Place,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Literal(Literal),
    Name(String),
    /// `operand.field`, or `operand.?field`.
    Field {
        operand: Box<Expr>,
        field: String,
        optional: bool,
    },
    /// `has(operand.field)`
    Has {
        operand: Box<Expr>,
        field: String,
    },
    /// `operand[index]`, or `operand[?index]`.
    Index {
        operand: Box<Expr>,
        index: Box<Expr>,
        optional: bool,
    },
    /// A function, an operator by its CEL name (`_+_`), or a method.
    Call {
        target: Option<Box<Expr>>,
        function: String,
        arguments: Vec<Expr>,
    },
    List(Vec<Item>),
    Map(Vec<(Expr, Expr, bool)>),
    /// A comprehension over a list or a map.
    Macro(Box<Comprehension>),
}

#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) value: Expr,
    pub(super) optional: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MacroKind {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
    /// `transformList`
    TransformList,
    /// `transformMap`
    TransformMap,
    /// `optMap`, over the value of an optional.
    OptMap,
    /// `optFlatMap`
    OptFlatMap,
    /// `cel.bind(name, value, body)`
    Bind,
    /// `sortBy(name, key)`
    SortBy,
}

#[derive(Clone, Debug)]
pub(super) struct Comprehension {
    pub(super) kind: MacroKind,
    pub(super) range: Expr,
    pub(super) variable: String,
    /// Index and value, key and value: the second name.
    pub(super) second: Option<String>,
    pub(super) filter: Option<Expr>,
    pub(super) body: Expr,
}
