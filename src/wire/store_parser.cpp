#include "wire/store_parser.h"

#include <cstring>

#include "wire/store_forms.h"

namespace ddp::wire {
namespace {

// The first byte determines the dialect, or the first five do if that byte is 0 (VALIDATE in one, SET in the other).
std::optional<StoreDialect> detect_dialect(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  if (bytes[0] != 0) return StoreDialect::legacy;
  std::uint32_t magic = 0;
  if (bytes.size() < 1 + sizeof magic) return std::nullopt;
  std::memcpy(&magic, bytes.data() + 1, sizeof magic);
  return magic == kStoreMagic ? StoreDialect::current : StoreDialect::legacy;
}

const StoreForm* find_form(int opcode, StoreDialect dialect) {
  for (const StoreForm& form : kStoreForms) {
    if (form.opcode(dialect) == opcode) return &form;
  }
  return nullptr;
}

}  // namespace

void StoreRequestParser::feed(std::string_view bytes) {
  if (violation_) return;
  buffer_.erase(0, consumed_);
  consumed_ = 0;
  // A connection that once sent much data must not keep the memory for it.
  if (buffer_.empty() && buffer_.capacity() > limits::kStoreIdleBytes && bytes.size() < limits::kStoreIdleBytes) {
    buffer_ = std::string();
  }
  buffer_.append(bytes);
}

std::variant<StoreRequest, StoreNeedsMore, StoreViolation> StoreRequestParser::next() {
  if (violation_) return *violation_;
  Progress progress = form_ == nullptr ? begin_request() : Progress::done;
  if (progress == Progress::done) progress = read_fields();
  if (progress == Progress::done && form_->op == StoreOp::validate && request_.number != kStoreMagic) {
    progress = violate("a VALIDATE request with a wrong magic number");
  }
  if (progress == Progress::violated) return *violation_;
  if (progress == Progress::needs_more) return StoreNeedsMore{};
  form_ = nullptr;
  request_bytes_ = 0;
  return std::move(request_);
}

StoreRequestParser::Progress StoreRequestParser::begin_request() {
  if (!dialect_) dialect_ = detect_dialect(rest());
  if (!dialect_ || rest().empty()) return Progress::needs_more;
  const int opcode = static_cast<unsigned char>(rest()[0]);
  form_ = find_form(opcode, *dialect_);
  if (form_ == nullptr) {
    return violate("unknown request " + std::to_string(opcode) +
                   (*dialect_ == StoreDialect::legacy ? " (legacy dialect)" : " (current dialect)"));
  }
  ++consumed_;
  request_ = StoreRequest{};
  request_.op = form_->op;
  field_ = 0;
  return Progress::done;
}

StoreRequestParser::Progress StoreRequestParser::read_fields() {
  for (; field_ < form_->fields.size(); ++field_) {
    Progress progress = Progress::done;
    switch (form_->fields[field_]) {
      case 'k':
        progress = read_text(limits_.key_bytes, "a key", request_.keys);
        break;
      case 'v':
        progress = read_text(limits_.value_bytes, "a value", request_.values);
        break;
      case 'i':
        progress = read_integer(request_.delta);
        break;
      case 'n':
        progress = read_integer(request_.number);
        break;
      default:
        progress = read_list(form_->fields[field_] == 'M');
    }
    if (progress != Progress::done) return progress;
  }
  return Progress::done;
}

StoreRequestParser::Progress StoreRequestParser::read_list(bool with_values) {
  if (!list_left_) {
    std::uint64_t count = 0;
    if (read_integer(count) != Progress::done) return Progress::needs_more;
    if (count > limits_.keys_per_request) {
      return violate(std::to_string(count) + " keys in one request (limit " + std::to_string(limits_.keys_per_request) +
                     ")");
    }
    list_left_ = count;
  }
  for (; *list_left_ > 0; --*list_left_) {
    if (!value_is_next_) {
      const Progress progress = read_text(limits_.key_bytes, "a key", request_.keys);
      if (progress != Progress::done) return progress;
    }
    value_is_next_ = with_values;
    if (!with_values) continue;
    const Progress progress = read_text(limits_.value_bytes, "a value", request_.values);
    if (progress != Progress::done) return progress;
    value_is_next_ = false;
  }
  list_left_.reset();
  return Progress::done;
}

StoreRequestParser::Progress StoreRequestParser::read_text(std::size_t limit, const char* what,
                                                           std::vector<std::string>& into) {
  std::uint64_t length = 0;
  const std::string_view bytes = rest();
  if (bytes.size() < sizeof length) return Progress::needs_more;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > limit) {
    return violate(std::string(what) + " of " + std::to_string(length) + " bytes (limit " + std::to_string(limit) +
                   ")");
  }
  if (request_bytes_ + length > limits_.request_bytes) {
    return violate("a " + std::string(form_->name) + " request of more than " + std::to_string(limits_.request_bytes) +
                   " bytes");
  }
  if (bytes.size() - sizeof length < length) return Progress::needs_more;
  into.emplace_back(bytes.substr(sizeof length, length));
  consumed_ += sizeof length + length;
  request_bytes_ += sizeof(std::string) + length;
  return Progress::done;
}

template <typename Integer>
StoreRequestParser::Progress StoreRequestParser::read_integer(Integer& value) {
  if (rest().size() < sizeof value) return Progress::needs_more;
  std::memcpy(&value, rest().data(), sizeof value);
  consumed_ += sizeof value;
  return Progress::done;
}

StoreRequestParser::Progress StoreRequestParser::violate(std::string reason) {
  violation_ = StoreViolation{std::move(reason)};
  buffer_ = std::string();
  consumed_ = 0;
  request_ = StoreRequest{};
  request_bytes_ = 0;
  return Progress::violated;
}

}  // namespace ddp::wire
