"""The goldens' comparison must see what it is there to see. Run: python logit_summary_test.py"""

import unittest

import numpy as np

import logit_summary

VOCAB = 49152
ROWS = np.arange(40, 48)


class LogitSummaryTest(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(7)
        self.rows = rng.normal(0.0, 4.0, (len(ROWS), VOCAB))
        self.span = (self.rows.max(axis=1) - self.rows.min(axis=1))[:, None]
        self.golden = logit_summary.encode(self.rows, ROWS)
        self.sign = logit_summary.signs(VOCAB)
        self.noise = rng.normal(0.0, 1.0, self.rows.shape)

    def largest(self, rows):
        found = logit_summary.errors(self.golden, rows, ROWS, self.sign)
        return np.max(list(found.values()), axis=0)

    def test_equal_rows_differ_by_rounding_only(self):
        self.assertLess(self.largest(self.rows).max(), 0.02 * logit_summary.TOLERANCE)

    def test_accepts_errors_within_tolerance(self):
        noise = self.noise * (
            0.98 * logit_summary.TOLERANCE / np.abs(self.noise).max(axis=1, keepdims=True)
        )
        self.assertLessEqual(
            self.largest(self.rows + noise * self.span).max(), logit_summary.TOLERANCE
        )

    def test_refuses_a_row_off_by_twice_the_tolerance(self):
        noise = self.noise * 2.0 * logit_summary.TOLERANCE
        self.assertGreater(
            self.largest(self.rows + noise * self.span).min(), logit_summary.TOLERANCE
        )

    def test_refuses_one_wrong_row_among_many(self):
        rows = self.rows.copy()
        rows[3] = np.roll(rows[3], 1)
        refused = self.largest(rows) > logit_summary.TOLERANCE
        self.assertEqual(refused.tolist(), [row == 3 for row in range(len(rows))])

    def test_refuses_a_wrong_panel_of_the_output_matrix(self):
        # No sampled id and no extreme among them: only projections can see these 16 entries.
        rows = self.rows.copy()
        seen = (
            set(logit_summary.sample_ids(ROWS, VOCAB).ravel())
            | set(rows.argmax(axis=1))
            | set(rows.argmin(axis=1))
        )
        panel = next(b for b in range(0, VOCAB, 16) if not seen & set(range(b, b + 16)))
        rows[:, panel : panel + 16] = -rows[:, panel : panel + 16]
        found = logit_summary.errors(self.golden, rows, ROWS, self.sign)
        self.assertGreater(found["projections"].max(), logit_summary.TOLERANCE)
        self.assertLess(found["samples"].max(), logit_summary.TOLERANCE)

    def test_refuses_nan_anywhere(self):
        rows = self.rows.copy()
        rows[5, 12345] = np.nan
        self.assertEqual(self.largest(rows)[5], np.inf)

    def test_samples_repeat_no_id_before_all_had_their_turn(self):
        ids = logit_summary.sample_ids(np.arange(6144), VOCAB)
        self.assertEqual(len(np.unique(ids)), VOCAB)

    def test_whole_row_sees_one_wrong_entry(self):
        row = self.rows[0]
        golden = logit_summary.encode_row(row)
        self.assertLess(logit_summary.row_errors(golden, row.min(), row.max(), row), 1e-5)
        wrong = row.copy()
        wrong[777] += 3e-3 * (row.max() - row.min())
        self.assertGreater(
            logit_summary.row_errors(golden, row.min(), row.max(), wrong), logit_summary.TOLERANCE
        )


if __name__ == "__main__":
    unittest.main()
