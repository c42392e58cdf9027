#include "store/local/local_table.h"

#include "support/catch.h"
#include "support/expect_error.h"

using namespace ddp::store;
using ddp::test::expect_error;
using Kind = TableChange::Kind;
using Keys = std::vector<std::string>;

TEST_CASE("values are set, appended to and erased") {
  LocalTable table;
  table.apply({Kind::append, "k", "a"});
  table.apply({Kind::append, "k", "b"});
  CHECK(*table.value("k") == "ab");
  table.apply({Kind::set, "k", ""});
  CHECK(table.value("k")->empty());
  CHECK(table.exists("k"));
  table.apply({Kind::erase, "k", ""});
  table.apply({Kind::erase, "k", ""});
  CHECK(table.value("k") == nullptr);
  CHECK_FALSE(table.exists("k"));
}

TEST_CASE("a queue exists while it is not empty and is separate from the value of its key") {
  LocalTable table;
  table.apply({Kind::pop, "q", ""});
  table.apply({Kind::push, "q", "1"});
  table.apply({Kind::push, "q", "2"});
  CHECK(table.value("q") == nullptr);
  CHECK(table.all_exist(Keys{"q"}));
  CHECK(table.queue("q")->front() == "1");
  table.apply({Kind::erase, "q", ""});
  table.apply({Kind::pop, "q", ""});
  CHECK(table.queue("q")->front() == "2");
  table.apply({Kind::pop, "q", ""});
  CHECK(table.queue("q") == nullptr);
  CHECK_FALSE(table.exists("q"));
}

TEST_CASE("a value is read as a number if it is one") {
  LocalTable table;
  CHECK(table.number("n") == 0);
  table.apply({Kind::set, "n", "-9223372036854775808"});
  CHECK(table.number("n") == INT64_MIN);
  table.apply({Kind::set, "n", "1x"});
  expect_error(ddp::ErrorKind::invalid_argument, {"'n'", "not a number"}, [&] { table.number("n"); });
}
