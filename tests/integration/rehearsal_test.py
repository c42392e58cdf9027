"""A job with rehearse_last_batch computes the same bits, and fails in its first step if its last batch fails."""
import subprocess
import sys
import unittest

LAUNCHER, PROGRAM = sys.argv[1:3]


def run(ranks, *arguments):
    """Returns the exit code, the lines of each rank, and everything that the job printed."""
    job = subprocess.run([LAUNCHER, f"--nproc-per-node={ranks}", "--tag=", PROGRAM, *arguments],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    lines = [[line for line in job.stdout.splitlines() if f"rank {rank} " in line] for rank in range(ranks)]
    return job.returncode, lines, job.stdout


def training(lines):
    return [line for line in lines if line.split()[2:3] in (["step"], ["epoch"])]


class Rehearsal(unittest.TestCase):
    def test_results_are_bit_identical(self):
        for ranks in 1, 2, 3:
            with self.subTest(ranks=ranks):
                samples = str(ranks * 8 * 12 + ranks * 5)  # the last batch has 5 samples
                code, without, text = run(ranks, "plain", samples)
                self.assertEqual(code, 0, text)
                self.assertNotIn("rehearses", text)
                code, with_rehearsal, text = run(ranks, "rehearse", samples)
                self.assertEqual(code, 0, text)
                for rank in range(ranks):
                    self.assertEqual(len(training(without[rank])), 3 * 13 + 3)
                    self.assertEqual(training(with_rehearsal[rank]), training(without[rank]))
                    notes = [line for line in with_rehearsal[rank] if "rehearses the last batch" in line]
                    self.assertEqual(len(notes), 1, text)
                    self.assertIn("5 samples in place of 8", notes[0])

    def test_a_last_batch_of_full_size_is_not_rehearsed(self):
        code, _, text = run(2, "rehearse", "64")
        self.assertEqual(code, 0, text)
        self.assertNotIn("rehearse", text)

    def test_what_fails_in_the_last_batch_fails_in_the_first_step(self):
        samples = str(2 * 8 * 12 + 2)  # the last batch has 1 sample
        for failure, expected in ("throw", 1), ("abort", 134):
            with self.subTest(failure=failure):
                code, lines, text = run(2, "plain", samples, failure)
                self.assertEqual(code, expected, text)
                self.assertIn("step 12", text)
                code, lines, text = run(2, "rehearse", samples, failure)
                self.assertEqual(code, expected, text)
                self.assertEqual(training(lines[0] + lines[1]), [], text)
                report = text[text.index("ddplaunch: error:"):]
                self.assertIn("rehearses the last batch (1 sample in place of 8", report)
                if failure == "throw":
                    self.assertIn("the step failed in the rehearsal of the last batch", report)
                    self.assertIn("expected more than 1 value per channel", report)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
