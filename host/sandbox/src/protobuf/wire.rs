//! Protobuf's wire format: tags, varints, lengths. Nothing here trusts a length.

/// The value of a field as it comes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field<'a> {
    Number(i64),
    Float(f64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
pub(super) fn fields(mut bytes: &[u8]) -> Result<Vec<(u32, Field<'_>)>, String> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let number = u32::try_from(tag >> 3).map_err(|_| "protobuf: field number out of range")?;
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)?.cast_signed()),
            1 => Field::Float(f64::from_le_bytes(take(&mut bytes, 8)?.try_into().map_err(|_| truncated())?)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).map_err(|_| truncated())?;
                Field::Bytes(take(&mut bytes, length)?)
            }
            5 => {
                let four: [u8; 4] = take(&mut bytes, 4)?.try_into().map_err(|_| truncated())?;
                Field::Number(i64::from(u32::from_le_bytes(four)))
            }
            other => return Err(format!("protobuf: illegal wire type {other}")),
        };
        out.push((number, field));
    }
    Ok(out)
}

fn truncated() -> String {
    "unexpected EOF".to_owned()
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], String> {
    let (taken, rest) = bytes.split_at_checked(length).ok_or_else(truncated)?;
    *bytes = rest;
    Ok(taken)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("protobuf: a number is too long".to_owned())
}

/// Numbers one after the other.
pub(super) fn packed(mut bytes: &[u8]) -> Result<Vec<i64>, String> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        out.push(varint(&mut bytes)?.cast_signed());
    }
    Ok(out)
}

pub(super) fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "protobuf: a text is no UTF-8".to_owned())
}

/// The number in a field of a message; 0 where it is absent.
pub(super) fn number(message: &[u8], wanted: u32) -> Result<i64, String> {
    let found = fields(message)?.into_iter().rev().find_map(|(number, field)| match field {
        Field::Number(value) if number == wanted => Some(value),
        _ => None,
    });
    Ok(found.unwrap_or_default())
}

/// The bytes in a field of a message; none where it is absent.
pub(super) fn bytes(message: &[u8], wanted: u32) -> Result<&[u8], String> {
    let found = fields(message)?.into_iter().rev().find_map(|(number, field)| match field {
        Field::Bytes(value) if number == wanted => Some(value),
        _ => None,
    });
    Ok(found.unwrap_or_default())
}
