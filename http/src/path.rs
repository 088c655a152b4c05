//! Paths and queries: cut first, decoded once afterwards.

/// Decodes percent-encoded text once; none when it is not UTF-8 or the encoding is broken.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The parameters of a query, decoded; none when one cannot be.
pub(crate) fn query(text: &str) -> Option<Vec<(String, String)>> {
    text.split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            // In a query, unlike a path, forms write a space as a plus.
            let value = value.replace('+', " ");
            Some((decode(name)?, decode(&value)?))
        })
        .collect()
}

/// What a path says for a pattern such as `/a/{name}/b`: the parts in braces, decoded. None when it is another path.
pub(crate) fn matched(pattern: &str, path: &str) -> Option<Result<Vec<String>, ()>> {
    let mut parts = path.split('/');
    let mut found = Vec::new();
    let mut is_sound = true;
    for wanted in pattern.split('/') {
        let part = parts.next()?;
        if wanted.starts_with('{') {
            match decode(part) {
                Some(text) => found.push(text),
                None => is_sound = false,
            }
        } else if wanted != part {
            return None;
        }
    }
    if parts.next().is_some() {
        return None;
    }
    Some(if is_sound { Ok(found) } else { Err(()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn re_01_names_are_decoded_once_and_reach_no_other_path() {
        for (encoded, name) in [
            ("a%2Fb", "a/b"),
            ("a%252Fb", "a%2Fb"),
            ("a%20b", "a b"),
            ("a+b", "a+b"),
            ("a%3Fb%23c", "a?b#c"),
            ("a%2F..%2F..%2Fbroker%2Fstats", "a/../../broker/stats"),
            ("%25", "%"),
            ("%C3%BC%E4%B8%AD%F0%9F%98%80", "ü中😀"),
        ] {
            let path = format!("/q/{encoded}/peek");
            assert_eq!(
                matched("/q/{name}/peek", &path),
                Some(Ok(vec![name.to_owned()]))
            );
        }
        for broken in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(matched("/q/{name}", &format!("/q/{broken}")), Some(Err(())));
        }
        assert_eq!(matched("/q/{name}", "/q/a/b"), None);
        assert_eq!(matched("/q/{name}", "/q"), None);
    }
}
