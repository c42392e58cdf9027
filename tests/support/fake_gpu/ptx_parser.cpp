#include <bit>
#include <cctype>
#include <charconv>
#include <optional>
#include <stdexcept>

#include "support/fake_gpu/ptx_module.h"

namespace fake_gpu {
namespace {

// Splits the text into words, such as "ld.param.u64" and "%rd4", and single other characters.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) { advance(); }

  std::string_view current() const { return current_; }
  bool is_at_end() const { return current_.empty(); }
  std::string_view take() {
    const std::string_view taken = current_;
    if (taken.empty()) fail("the text ends too early");
    advance();
    return taken;
  }
  bool take_if(std::string_view wanted) {
    if (current_ != wanted) return false;
    advance();
    return true;
  }
  void expect(std::string_view wanted) {
    if (!take_if(wanted)) fail("\"" + std::string(wanted) + "\" is missing before \"" + std::string(current_) + "\"");
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw std::runtime_error("line " + std::to_string(line_) + ": " + reason);
  }

 private:
  static bool is_in_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '$' || c == '%';
  }

  void advance() {
    skip_space();
    if (at_ == text_.size()) {
      current_ = {};
      return;
    }
    const std::size_t begin = at_;
    if (text_[at_] == '"') {
      at_ = std::min(text_.find('"', at_ + 1), text_.size() - 1) + 1;
    } else if (!is_in_word(text_[at_])) {
      ++at_;
    } else {
      while (at_ < text_.size() && is_in_word(text_[at_])) ++at_;
    }
    current_ = text_.substr(begin, at_ - begin);
  }

  void skip_space() {
    while (at_ < text_.size()) {
      if (text_.substr(at_).starts_with("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
        line_ += text_[at_] == '\n' ? 1 : 0;
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view text_;
  std::string_view current_;
  std::size_t at_ = 0;
  int line_ = 1;
};

std::size_t bytes_of(const Tokens& tokens, std::string_view type) {
  static const std::map<std::string_view, std::size_t> sizes = {{".b8", 1},  {".u8", 1},  {".b16", 2}, {".u16", 2},
                                                                {".b32", 4}, {".u32", 4}, {".f32", 4}, {".b64", 8},
                                                                {".u64", 8}, {".f64", 8}, {".pred", 8}};
  const auto found = sizes.find(type);
  if (found == sizes.end()) tokens.fail("unknown type \"" + std::string(type) + "\"");
  return found->second;
}

template <typename Number>
std::optional<Number> number_in(std::string_view text, int base = 10) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

class KernelParser {
 public:
  explicit KernelParser(Tokens& tokens) : tokens_(tokens) {
    names_ = {{"%tid.x", kThreadIndex}, {"%ntid.x", kThreads}, {"%ctaid.x", kBlockIndex}, {"%nctaid.x", kBlocks}};
    kernel_.registers.resize(kSpecialRegisters);
  }

  // Parses everything from the parameters on.
  PtxKernel parse() {
    tokens_.expect("(");
    while (!tokens_.take_if(")")) {
      parse_parameter();
      tokens_.take_if(",");
    }
    tokens_.expect("{");
    while (!tokens_.take_if("}")) parse_statement();
    for (const auto& [index, label] : branches_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) tokens_.fail("there is no label \"" + std::string(label) + "\"");
      kernel_.code[index].offset = static_cast<std::int64_t>(found->second);
    }
    const PtxInstructionKind& end = ptx_instructions().at("ret");
    kernel_.code.push_back({.run = end.run});  // a kernel may end without "ret"
    return std::move(kernel_);
  }

 private:
  void parse_parameter() {
    tokens_.expect(".param");
    const std::string_view type = tokens_.take();
    const std::size_t bytes = bytes_of(tokens_, type);
    const std::size_t offset = (kernel_.parameter_bytes + bytes - 1) / bytes * bytes;
    kernel_.parameters.push_back({std::string(tokens_.take()), std::string(type.substr(1)), bytes, offset});
    kernel_.parameter_bytes = offset + bytes;
  }

  void parse_statement() {
    if (tokens_.take_if(".reg")) return parse_registers();
    if (tokens_.take_if(".shared")) return parse_shared();
    if (tokens_.take_if(".pragma")) {
      tokens_.take();
      return tokens_.expect(";");
    }
    PtxInstruction instruction;
    if (tokens_.take_if("@")) {
      instruction.is_negated = tokens_.take_if("!");
      instruction.guard = register_of(tokens_.take());
    }
    const std::string_view word = tokens_.take();
    if (tokens_.take_if(":")) {
      labels_[word] = kernel_.code.size();
      return;
    }
    parse_instruction(word, instruction);
  }

  // Parses ".reg .b32 %r<7>;", which declares %r0 to %r6, or ".reg .b32 %a, %b;".
  void parse_registers() {
    bytes_of(tokens_, tokens_.take());
    do {
      const std::string name(tokens_.take());
      if (!tokens_.take_if("<")) {
        declare(name);
        continue;
      }
      const auto count = number_in<int>(tokens_.take());
      tokens_.expect(">");
      for (int i = 0; i < count.value_or(0); ++i) declare(name + std::to_string(i));
    } while (tokens_.take_if(","));
    tokens_.expect(";");
  }

  void declare(const std::string& name) { names_[name] = new_register(0); }

  std::uint16_t new_register(std::uint64_t value) {
    kernel_.registers.push_back(value);
    if (kernel_.registers.size() > 0xffff) tokens_.fail("too many registers");
    return static_cast<std::uint16_t>(kernel_.registers.size() - 1);
  }

  // Parses ".shared .align 8 .b8 name[2048];".
  void parse_shared() {
    std::size_t alignment = 1;
    if (tokens_.take_if(".align")) alignment = number_in<std::size_t>(tokens_.take()).value_or(1);
    std::size_t bytes = bytes_of(tokens_, tokens_.take());
    const std::string_view name = tokens_.take();
    if (tokens_.take_if("[")) {
      bytes *= number_in<std::size_t>(tokens_.take()).value_or(0);
      tokens_.expect("]");
    }
    tokens_.expect(";");
    const std::size_t offset = (kernel_.shared_bytes + alignment - 1) / alignment * alignment;
    shared_[name] = offset;
    kernel_.shared_bytes = offset + bytes;
  }

  void parse_instruction(std::string_view name, PtxInstruction& instruction) {
    const auto found = ptx_instructions().find(name);
    if (found == ptx_instructions().end()) tokens_.fail("unknown instruction \"" + std::string(name) + "\"");
    const PtxInstructionKind& kind = found->second;
    instruction.run = kind.run;
    switch (kind.form) {
      case PtxForm::values:
        for (std::size_t i = 0; i < kind.operands; ++i) {
          if (i > 0) tokens_.expect(",");
          instruction.registers[i] = parse_operand();
        }
        break;
      case PtxForm::load:
        parse_data(kind.operands, instruction);
        tokens_.expect(",");
        parse_address(instruction);
        break;
      case PtxForm::store:
        parse_address(instruction);
        tokens_.expect(",");
        parse_data(kind.operands, instruction);
        break;
      case PtxForm::atomic:
        instruction.registers[0] = parse_operand();
        tokens_.expect(",");
        parse_address(instruction);
        tokens_.expect(",");
        instruction.registers[1] = parse_operand();
        break;
      case PtxForm::parameter:
        instruction.registers[0] = parse_operand();
        tokens_.expect(",");
        parse_parameter_address(instruction);
        break;
      case PtxForm::branch:
        branches_.emplace_back(kernel_.code.size(), tokens_.take());
        break;
      case PtxForm::none:
        for (std::size_t i = 0; i < kind.operands; ++i) tokens_.take();
        kernel_.has_barrier = kernel_.has_barrier || name == "bar.sync";
        break;
    }
    tokens_.expect(";");
    kernel_.code.push_back(instruction);
  }

  // Parses one register, or as many in braces as the instruction loads or stores.
  void parse_data(std::size_t width, PtxInstruction& instruction) {
    if (width > 1) tokens_.expect("{");
    for (std::size_t i = 0; i < width; ++i) {
      if (i > 0) tokens_.expect(",");
      instruction.registers[i] = parse_operand();
    }
    if (width > 1) tokens_.expect("}");
  }

  // Parses "[%rd4]", "[%rd4+-8]", "[name]" or "[name+4]".
  void parse_address(PtxInstruction& instruction) {
    tokens_.expect("[");
    const std::string_view base = tokens_.take();
    if (const auto shared = shared_.find(base); shared != shared_.end()) {
      instruction.address = kZero;
      instruction.offset = static_cast<std::int64_t>(shared->second);
    } else {
      instruction.address = register_of(base);
    }
    if (tokens_.take_if("+")) instruction.offset += parse_integer();
    tokens_.expect("]");
  }

  void parse_parameter_address(PtxInstruction& instruction) {
    tokens_.expect("[");
    const std::string_view name = tokens_.take();
    const PtxParameter* parameter = nullptr;
    for (const PtxParameter& known : kernel_.parameters) parameter = known.name == name ? &known : parameter;
    if (parameter == nullptr) tokens_.fail("there is no parameter \"" + std::string(name) + "\"");
    instruction.offset = static_cast<std::int64_t>(parameter->offset);
    tokens_.expect("]");
  }

  std::int64_t parse_integer() {
    const bool is_negative = tokens_.take_if("-");
    const std::string_view word = tokens_.take();
    const auto number = number_in<std::uint64_t>(word);
    if (!number) tokens_.fail("\"" + std::string(word) + "\" is no number");
    return static_cast<std::int64_t>(is_negative ? 0 - *number : *number);
  }

  // Returns the register of an operand: a register, or a new one for a constant.
  std::uint16_t parse_operand() {
    const std::string_view word = tokens_.current();
    if (word.starts_with("%")) return register_of(tokens_.take());
    if (const auto shared = shared_.find(word); shared != shared_.end()) {
      tokens_.take();
      return constant(shared->second);
    }
    if (word.size() > 2 && (word.starts_with("0f") || word.starts_with("0d"))) {
      const auto bits = number_in<std::uint64_t>(word.substr(2), 16);
      if (!bits) tokens_.fail("\"" + std::string(word) + "\" is no number");
      tokens_.take();
      return constant(*bits);
    }
    return constant(static_cast<std::uint64_t>(parse_integer()));
  }

  std::uint16_t constant(std::uint64_t value) {
    if (const auto found = constants_.find(value); found != constants_.end()) return found->second;
    return constants_[value] = new_register(value);
  }

  std::uint16_t register_of(std::string_view name) const {
    const auto found = names_.find(name);
    if (found == names_.end()) tokens_.fail("there is no register \"" + std::string(name) + "\"");
    return found->second;
  }

  Tokens& tokens_;
  PtxKernel kernel_;
  std::map<std::string, std::uint16_t, std::less<>> names_;
  std::map<std::uint64_t, std::uint16_t> constants_;
  std::map<std::string_view, std::size_t> shared_;  // offset in shared memory
  std::map<std::string_view, std::size_t> labels_;
  std::vector<std::pair<std::size_t, std::string_view>> branches_;  // instruction and label
};

}  // namespace

PtxModule parse_ptx(std::string_view text) {
  PtxModule module;
  Tokens tokens(text);
  if (tokens.current() != ".version") tokens.fail("a module begins with .version");
  while (!tokens.is_at_end()) {
    if (tokens.take_if(".version") || tokens.take_if(".target") || tokens.take_if(".address_size")) {
      tokens.take();
      continue;
    }
    tokens.take_if(".visible");
    tokens.expect(".entry");
    const std::string name(tokens.take());
    module.kernels[name] = KernelParser(tokens).parse();
  }
  if (module.kernels.empty()) tokens.fail("the module has no kernel");
  return module;
}

}  // namespace fake_gpu
