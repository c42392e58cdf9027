#include "wire/store_message.h"

#include <cstring>

#include "base/check.h"
#include "wire/store_forms.h"

namespace ddp::wire {
namespace {

template <typename Integer>
void put_integer(std::string& out, Integer value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

const StoreForm& form_of(StoreOp op) {
  for (const StoreForm& form : kStoreForms) {
    if (form.op == op) return form;
  }
  DDP_CHECK(false, static_cast<int>(op));
}

}  // namespace

std::string_view to_string(StoreOp op) {
  return form_of(op).name;
}

std::string encode(const StoreRequest& request, StoreDialect dialect) {
  const StoreForm& form = form_of(request.op);
  const int opcode = form.opcode(dialect);
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
