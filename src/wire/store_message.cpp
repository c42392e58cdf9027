#include "wire/store_message.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "base/limits.h"

namespace ddp::wire {
namespace {

// What follows the opcode, one letter a field:
//   k key   v value   i i64   n u32   K list of keys (u64 count, keys)   M pairs (i64 count, then key, value, …)
struct RequestForm {
  StoreOp op;
  std::string_view name;
  int legacy_opcode;  // -1: the dialect lacks it
  int current_opcode;
  std::string_view fields;
};

constexpr std::array kForms = {
    RequestForm{StoreOp::validate, "VALIDATE", -1, 0, "n"},
    RequestForm{StoreOp::set, "SET", 0, 1, "kv"},
    RequestForm{StoreOp::compare_set, "COMPARE_SET", 1, 2, "kvv"},
    RequestForm{StoreOp::get, "GET", 2, 3, "k"},
    RequestForm{StoreOp::add, "ADD", 3, 4, "ki"},
    RequestForm{StoreOp::check, "CHECK", 4, 5, "K"},
    RequestForm{StoreOp::wait, "WAIT", 5, 6, "K"},
    RequestForm{StoreOp::key_count, "GETNUMKEYS", 6, 7, ""},
    RequestForm{StoreOp::delete_key, "DELETE_KEY", 8, 8, "k"},
    RequestForm{StoreOp::append, "APPEND", -1, 9, "kv"},
    RequestForm{StoreOp::multi_get, "MULTI_GET", -1, 10, "K"},
    RequestForm{StoreOp::multi_set, "MULTI_SET", -1, 11, "M"},
    RequestForm{StoreOp::cancel_wait, "CANCEL_WAIT", -1, 12, ""},
    RequestForm{StoreOp::ping, "PING", -1, 13, "n"},
    RequestForm{StoreOp::watch_key, "WATCH_KEY", 7, -1, "k"},
    RequestForm{StoreOp::queue_push, "QUEUE_PUSH", -1, 14, "kv"},
    RequestForm{StoreOp::queue_pop, "QUEUE_POP", -1, 15, "k"},
    RequestForm{StoreOp::queue_len, "QUEUE_LEN", -1, 16, "k"},
    RequestForm{StoreOp::list_keys, "LIST_KEYS", -1, 17, ""},
    RequestForm{StoreOp::barrier, "BARRIER", -1, 18, "ki"},
    RequestForm{StoreOp::hello, "HELLO", -1, 0xD0, "inv"},
    RequestForm{StoreOp::explain, "EXPLAIN", -1, 0xD1, "K"},
    RequestForm{StoreOp::inspect, "INSPECT", -1, 0xD2, ""},
    RequestForm{StoreOp::auth_hello, "AUTH_HELLO", -1, 0xD3, "v"},
    RequestForm{StoreOp::auth_proof, "AUTH_PROOF", -1, 0xD4, "v"},
};

int opcode_of(const RequestForm& form, StoreDialect dialect) {
  return dialect == StoreDialect::legacy ? form.legacy_opcode : form.current_opcode;
}

const RequestForm& form_of(StoreOp op) {
  for (const RequestForm& form : kForms) {
    if (form.op == op) return form;
  }
  DDP_CHECK(false, static_cast<int>(op));
}

// Reads fields from the front of a buffer that may end anywhere. After a failed read, `violation()` tells a broken rule
// from bytes that have yet to come.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : bytes_(bytes) {}

  template <typename Integer>
  bool read(Integer& value) {
    if (bytes_.size() - position_ < sizeof value) return false;
    std::memcpy(&value, bytes_.data() + position_, sizeof value);
    position_ += sizeof value;
    return true;
  }

  bool read_text(std::string_view& text, std::size_t limit, const char* what) {
    std::uint64_t length = 0;
    if (!read(length)) return false;
    if (length > limit) {
      return violate(std::string(what) + " of " + std::to_string(length) + " bytes (limit " + std::to_string(limit) +
                     ")");
    }
    if (bytes_.size() - position_ < length) return false;
    text = bytes_.substr(position_, length);
    position_ += length;
    return true;
  }

  bool read_key(std::string_view& text) { return read_text(text, limits::kStoreKeyBytes, "a key"); }
  bool read_value(std::string_view& text) { return read_text(text, limits::kStoreValueBytes, "a value"); }

  bool read_count(std::uint64_t& count) {
    if (!read(count)) return false;
    if (count > limits::kStoreKeysPerRequest) {
      return violate(std::to_string(count) + " keys in one request (limit " +
                     std::to_string(limits::kStoreKeysPerRequest) + ")");
    }
    return true;
  }

  bool violate(std::string reason) {
    violation_ = StoreViolation{std::move(reason)};
    return false;
  }

  std::size_t position() const { return position_; }
  const std::optional<StoreViolation>& violation() const { return violation_; }

 private:
  std::string_view bytes_;
  std::size_t position_ = 0;
  std::optional<StoreViolation> violation_;
};

// Views into the parse buffer; copied into a request only once the request is whole, so that a long request that
// arrives in many pieces is walked again but not copied again.
struct RequestViews {
  std::vector<std::string_view> keys;
  std::vector<std::string_view> values;
};

bool read_fields(FieldReader& reader, std::string_view fields, RequestViews& views, StoreRequest& request) {
  std::string_view text;
  std::uint64_t count = 0;
  for (const char field : fields) {
    switch (field) {
      case 'k':
        if (!reader.read_key(text)) return false;
        views.keys.push_back(text);
        break;
      case 'v':
        if (!reader.read_value(text)) return false;
        views.values.push_back(text);
        break;
      case 'i':
        if (!reader.read(request.delta)) return false;
        break;
      case 'n':
        if (!reader.read(request.number)) return false;
        break;
      case 'K':
      case 'M':
        if (!reader.read_count(count)) return false;
        for (std::uint64_t i = 0; i < count; ++i) {
          if (!reader.read_key(text)) return false;
          views.keys.push_back(text);
          if (field == 'K') continue;
          if (!reader.read_value(text)) return false;
          views.values.push_back(text);
        }
        break;
      default:
        DDP_CHECK(false, field);
    }
  }
  return true;
}

// The dialect shows in the first byte, or in the first five if that byte is 0 (VALIDATE in one, SET in the other).
std::optional<StoreDialect> detect_dialect(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  if (bytes[0] != 0) return StoreDialect::legacy;
  std::uint32_t magic = 0;
  if (bytes.size() < 1 + sizeof magic) return std::nullopt;
  std::memcpy(&magic, bytes.data() + 1, sizeof magic);
  return magic == kStoreMagic ? StoreDialect::current : StoreDialect::legacy;
}

}  // namespace

void StoreRequestParser::feed(std::string_view bytes) {
  if (violation_) return;
  buffer_.erase(0, consumed_);
  consumed_ = 0;
  buffer_.append(bytes);
}

std::variant<StoreRequest, StoreNeedsMore, StoreViolation> StoreRequestParser::next() {
  if (violation_) return *violation_;
  const std::string_view rest = std::string_view(buffer_).substr(consumed_);
  if (!dialect_) dialect_ = detect_dialect(rest);
  if (!dialect_ || rest.empty()) return StoreNeedsMore{};

  const int opcode = static_cast<unsigned char>(rest[0]);
  const RequestForm* form = nullptr;
  for (const RequestForm& candidate : kForms) {
    if (opcode_of(candidate, *dialect_) == opcode) form = &candidate;
  }
  if (form == nullptr) {
    violation_ = StoreViolation{"unknown request " + std::to_string(opcode) +
                                (*dialect_ == StoreDialect::legacy ? " (legacy dialect)" : " (current dialect)")};
    return *violation_;
  }

  FieldReader reader(rest.substr(1));
  StoreRequest request;
  request.op = form->op;
  RequestViews views;
  if (!read_fields(reader, form->fields, views, request)) {
    violation_ = reader.violation();
    if (!violation_ && rest.size() > limits::kStoreRequestBytes) {
      violation_ = StoreViolation{"a " + std::string(form->name) + " request of more than " +
                                  std::to_string(limits::kStoreRequestBytes) + " bytes"};
    }
    if (violation_) return *violation_;
    return StoreNeedsMore{};
  }
  if (form->op == StoreOp::validate && request.number != kStoreMagic) {
    violation_ = StoreViolation{"a VALIDATE request with a wrong magic number"};
    return *violation_;
  }
  request.keys.assign(views.keys.begin(), views.keys.end());
  request.values.assign(views.values.begin(), views.values.end());
  consumed_ += 1 + reader.position();
  return request;
}

std::string_view to_string(StoreOp op) {
  return form_of(op).name;
}

std::string encode(const StoreRequest& request, StoreDialect dialect) {
  const RequestForm& form = form_of(request.op);
  const int opcode = opcode_of(form, dialect);
  DDP_CHECK(opcode >= 0, form.name);
  std::string out;
  put_u8(out, static_cast<std::uint8_t>(opcode));
  std::size_t key = 0;
  std::size_t value = 0;
  for (const char field : form.fields) {
    if (field == 'k') put_bytes(out, request.keys.at(key++));
    if (field == 'v') put_bytes(out, request.values.at(value++));
    if (field == 'i') put_i64(out, request.delta);
    if (field == 'n') put_u32(out, request.number);
    if (field != 'K' && field != 'M') continue;
    put_i64(out, static_cast<std::int64_t>(request.keys.size()));
    for (const std::string& text : request.keys) {
      put_bytes(out, text);
      if (field == 'M') put_bytes(out, request.values.at(value++));
    }
  }
  return out;
}

void put_u8(std::string& out, std::uint8_t value) {
  out.push_back(static_cast<char>(value));
}

namespace {
template <typename Integer>
void put_integer(std::string& out, Integer value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}
}  // namespace

void put_u32(std::string& out, std::uint32_t value) {
  put_integer(out, value);
}
void put_i64(std::string& out, std::int64_t value) {
  put_integer(out, value);
}

void put_bytes(std::string& out, std::string_view bytes) {
  put_integer(out, static_cast<std::uint64_t>(bytes.size()));
  out.append(bytes);
}

}  // namespace ddp::wire
