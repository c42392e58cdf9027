#include "wire/json_fields.h"

#include <limits>
#include <string>

#include "support/catch.h"

using namespace ddp::wire;
using namespace std::chrono_literals;

namespace {

enum class Colour : std::uint8_t { red, green };
constexpr Colour last_of(Colour) {
  return Colour::green;
}

struct Point {
  std::uint8_t x = 0;
  int y = 0;
  std::optional<double> weight;

  friend bool operator==(const Point&, const Point&) = default;
};
auto fields_of(FieldsOf<Point> auto& point) {
  return std::tie(point.x, point.y, point.weight);
}

struct Drawing {
  std::string name;
  bool is_done = false;
  Colour colour = Colour::red;
  char mark = '?';
  std::chrono::nanoseconds time{0};
  std::vector<Point> points;
  std::optional<int> page;

  friend bool operator==(const Drawing&, const Drawing&) = default;
};
BOOST_DESCRIBE_STRUCT(Drawing, (), (name, is_done, colour, mark, time, points, page))

const Drawing kDrawing{"a", true, Colour::green, 'R', -7ns, {{1, -2, 0.5}, {255, 3, {}}}, 4};

}  // namespace

TEST_CASE("a value with a list of fields is written to JSON and read back unchanged") {
  const Json json = json_of(kDrawing);
  CHECK(json == Json::parse(R"({"name": "a", "is_done": true, "colour": 1, "mark": 82, "time": -7,
                                "points": [[1, -2, 0.5], [255, 3]], "page": 4})"));
  CHECK(read_json<Drawing>(json) == kDrawing);
  CHECK(read_json<Drawing>(json_of(Drawing{})) == Drawing{});
}

TEST_CASE("a reader refuses what a field cannot hold") {
  const Json good = json_of(kDrawing);
  const auto with = [&](const char* name, Json value) {
    Json json = good;
    json[name] = std::move(value);
    return json;
  };
  CHECK_NOTHROW(read_json<Drawing>(with("page", std::numeric_limits<int>::max())));
  for (const Json& bad :
       {with("page", std::numeric_limits<int>::max() + 1LL), with("page", 1.5), with("page", "4"), with("page", true),
        with("colour", 2), with("colour", -1), with("mark", 300), with("is_done", 1), with("name", 7),
        with("time", std::numeric_limits<std::uint64_t>::max()), with("points", Json::object()),
        with("points", {{256, 0}}), with("points", {{-1, 0}}), with("points", {{1}}), Json(7), Json()}) {
    INFO(bad.dump());
    CHECK_THROWS(read_json<Drawing>(bad));
  }
  Json incomplete = good;
  incomplete.erase("page");
  CHECK_THROWS(read_json<Drawing>(incomplete));
}
