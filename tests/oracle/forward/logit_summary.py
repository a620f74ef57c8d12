"""What is kept of rows of logits, so that 4,512 rows of 49,152 fit into 300 kB; how rows compare.

Of every row (R = max - min of the golden row, V = vocabulary size):

    min, max      f32
    argmax        u16, or u32 where V is larger
    logsumexp     u16, as (logsumexp - max) in [0, 16)
    samples       8 x u16: logits of 8 ids that move on with every row and repeat only
                  when all ids had their turn; as fractions of [min, max]
    projections   8 x i16: sum over v of sign_j(v) * (logit(v) - (min + max) / 2) / sqrt(V),
                  as fractions of R

Storing costs at most 1.5e-5 R of exactness, under a hundredth of the tolerance.

Why projections. Samples see an id once in a while; a projection sees every entry of every row. If a
row's error is e, its projection on random signs is a draw of mean 0 and standard deviation rms(e),
so the root mean square of eight of them estimates rms(e), and is held to the same tolerance as
single entries. A row with errors of the usual shape, every entry within tolerance, has an rms(e) of
a quarter of the tolerance (the largest of 49,152 normal draws is 4.3 standard deviations) and
passes with room; a row that is off by the tolerance as a whole, or off by 60 tolerances in one
entry of a thousand, does not.
"""

import numpy as np

SAMPLES = 8
PROJECTIONS = 8
LSE_SPAN = 16.0  # logsumexp - max is at most ln(vocab): 12.5 for 262,144
TOLERANCE = 2e-3  # of the row's range
# With activations rounded to 8 bits. llama.cpp, which rounds them too, is up to 6e-2 away on the same file.
INT8_TOLERANCE = 6e-2


def signs(vocab_size):
    """float64 [vocab, 8] of +1 and -1: bits of SplitMix64 (Steele et al. 2014) of the id."""
    with np.errstate(over="ignore"):
        z = (np.arange(vocab_size, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    bits = (z[:, None] >> np.arange(32, 32 + PROJECTIONS, dtype=np.uint64)[None, :]) & np.uint64(1)
    return bits.astype(np.float64) * 2.0 - 1.0


def sample_ids(row_numbers, vocab_size):
    """int [rows, 8]: a walk through the vocabulary with a large prime stride."""
    steps = np.asarray(row_numbers)[:, None] * SAMPLES + np.arange(SAMPLES)[None, :]
    return steps * 30011 % vocab_size


def id_type(vocab_size):
    """What token ids are stored in."""
    return np.uint16 if vocab_size <= 1 << 16 else np.uint32


def logsumexp(rows):
    top = rows.max(axis=1)
    return top + np.log(np.exp(rows - top[:, None]).sum(axis=1))


def project(rows, low, high, sign):
    middle = (low + high) / 2.0
    # Row sums of signs times the middle, instead of a centred copy of the rows.
    return (rows @ sign - middle[:, None] * sign.sum(axis=0)[None, :]) / np.sqrt(rows.shape[1])


def encode(rows, row_numbers):
    """float64 [n, vocab] -> dict of small arrays, one entry per row."""
    vocab_size = rows.shape[1]
    low = rows.min(axis=1).astype(np.float32)
    high = rows.max(axis=1).astype(np.float32)
    low64, high64 = low.astype(np.float64), high.astype(np.float64)
    span = (high64 - low64)[:, None]
    samples = np.take_along_axis(rows, sample_ids(row_numbers, vocab_size), axis=1)
    projections = project(rows, low64, high64, signs(vocab_size)) / span
    return {
        "min": low,
        "max": high,
        "argmax": rows.argmax(axis=1).astype(id_type(vocab_size)),
        "lse": np.rint((logsumexp(rows) - high64) / LSE_SPAN * 65535.0)
        .clip(0, 65535)
        .astype(np.uint16),
        "samples": np.rint((samples - low64[:, None]) / span * 65535.0)
        .clip(0, 65535)
        .astype(np.uint16),
        "projections": np.rint(projections * 32767.0).clip(-32767, 32767).astype(np.int16),
    }


def encode_row(row):
    """One whole row as u16 fractions of its range."""
    return np.rint((row - row.min()) / (row.max() - row.min()) * 65535.0).astype(np.uint16)


def row_errors(golden_row, low, high, row):
    """Largest error of one whole row, as a fraction of its range."""
    golden = float(low) + golden_row.astype(np.float64) / 65535.0 * (float(high) - float(low))
    return float(np.abs(row - golden).max() / (float(high) - float(low)))


def errors(golden, rows, row_numbers, sign):
    """Errors of float64 rows [n, vocab] against n golden rows, as fractions of their ranges.

    Returns {kind of value: float64 [n]}: the largest of the row's values of that kind, of
    projections the root mean square. NaN and infinity anywhere in a row count as an infinite error.
    """
    low, high = golden["min"].astype(np.float64), golden["max"].astype(np.float64)
    span = high - low
    samples = low[:, None] + golden["samples"] / 65535.0 * span[:, None]
    lse = high + golden["lse"] / 65535.0 * LSE_SPAN
    picked = np.take_along_axis(rows, sample_ids(row_numbers, rows.shape[1]), axis=1)
    at_argmax = np.take_along_axis(rows, golden["argmax"].astype(np.int64)[:, None], axis=1)[:, 0]
    projections = project(rows, low, high, sign)
    out = {
        "min": np.abs(rows.min(axis=1) - low) / span,
        "max": np.abs(rows.max(axis=1) - high) / span,
        "argmax": np.abs(at_argmax - high) / span,
        "logsumexp": np.abs(logsumexp(rows) - lse) / span,
        "samples": (np.abs(picked - samples) / span[:, None]).max(axis=1),
        "projections": np.sqrt(
            ((projections / span[:, None] - golden["projections"] / 32767.0) ** 2).mean(axis=1)
        ),
    }
    broken = ~np.isfinite(rows).all(axis=1)
    for values in out.values():
        values[broken] = np.inf
    return out
