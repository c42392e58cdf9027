#include "launcher/see/view/progress_line.h"

#include <cmath>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

JobSnapshot training() {
  JobSnapshot job;
  job.step = 1200;
  job.total_steps = 10'000;
  job.values = {{"loss", 1.8421}, {"tok/s", 18'310}};
  job.eta = 431;
  job.steps_per_second = 20.3;
  return job;
}

}  // namespace

TEST_CASE("the progress line shows the step, the values, the rates and the remaining time") {
  CHECK(progress_line(training(), 80) == "step 1200/10000  loss 1.842  18.3k tok/s  eta 7 min");
}

TEST_CASE("a name that ends in 'per second' is shown as a unit") {
  JobSnapshot job = training();
  job.values = {{"tok_per_s", 250}, {"samples_per_second", 3.25}, {"it_per_sec", 9}, {"/s", 1}};
  CHECK(progress_line(job, 80) == "step 1200/10000  250 tok/s  3.250 samples/s  9 it/s  /s 1  eta 7 min");
}

TEST_CASE("a program without reported progress shows its synchronised steps and their rate") {
  JobSnapshot job;
  job.step = 1200;
  job.steps_per_second = 12.34;
  CHECK(progress_line(job, 80) == "step 1200  12.34 steps/s");
  job.steps_per_second = 0;
  CHECK(progress_line(job, 80) == "step 1200");
}

TEST_CASE("no progress line is shown without progress") {
  JobSnapshot job;
  job.steps_per_second = 3;
  CHECK(progress_line(job, 80).empty());
}

TEST_CASE("a narrow progress line drops its last values first and then its end") {
  const JobSnapshot job = training();
  CHECK(progress_line(job, 51) == "step 1200/10000  loss 1.842  18.3k tok/s  eta 7 min");
  CHECK(progress_line(job, 50) == "step 1200/10000  loss 1.842  eta 7 min");
  CHECK(progress_line(job, 30) == "step 1200/10000  eta 7 min");
  CHECK(progress_line(job, 11) == "step 1200/1");
  CHECK(progress_line(job, 0).empty());
}

TEST_CASE("control characters in value names are removed, and wide characters count twice") {
  JobSnapshot job = training();
  job.values = {{"a\x1b[2J\n", 1}};
  CHECK(progress_line(job, 80) == "step 1200/10000  a\\x1b[2J\\x0a 1  eta 7 min");
  job.values = {{"損失", 2}};
  CHECK(progress_line(job, 34) == "step 1200/10000  損失 2  eta 7 min");
  CHECK(progress_line(job, 33) == "step 1200/10000  eta 7 min");
}

TEST_CASE("numbers keep their number of digits while they change") {
  CHECK(progress_number(1.8) == "1.800");
  CHECK(progress_number(-12.3456) == "-12.35");
  CHECK(progress_number(9.99996) == "10.00");
  CHECK(progress_number(999.96) == "1000");
  CHECK(progress_number(1234.5) == "1234");
  CHECK(progress_number(0.25) == "0.2500");
  CHECK(progress_number(0.00125) == "0.001250");
  CHECK(progress_number(0.000015) == "1.500e-5");
  CHECK(progress_number(3) == "3");
  CHECK(progress_number(0) == "0");
  CHECK(progress_number(9999.7) == "10.0k");
  CHECK(progress_number(18'310) == "18.3k");
  CHECK(progress_number(999'600) == "1.00M");
  CHECK(progress_number(2.5e9) == "2.50G");
  CHECK(progress_number(7e20) == "7.000e+20");
  CHECK(progress_number(std::nan("")) == "nan");
  CHECK(progress_number(-INFINITY) == "-inf");
}

TEST_CASE("the remaining time has few digits") {
  CHECK(progress_duration(0.2) == "5 s");
  CHECK(progress_duration(41) == "45 s");
  CHECK(progress_duration(58) == "1 min");
  CHECK(progress_duration(431) == "7 min");
  CHECK(progress_duration(59.4 * 60) == "59 min");
  CHECK(progress_duration(3600) == "1 h");
  CHECK(progress_duration(7812) == "2 h 10 min");
  CHECK(progress_duration(100 * 3600) == "4 d 4 h");
  CHECK(progress_duration(INFINITY) == "more than 30 years");
  CHECK(progress_duration(NAN) == "more than 30 years");
}
