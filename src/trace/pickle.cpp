#include "trace/pickle.hpp"

#include <algorithm>

namespace berth::trace {
namespace {

using kind = pickle::kind;
using value = pickle::value;

// The machine of `pickletools`: a stack of values, marks in it, and a memo of values that are mentioned again. A step
// returns false if it cannot go on, and sets `wrong`.
class reader {
 public:
  explicit reader(std::string_view bytes)
      : in_{bytes}, most_waiting_{std::max<std::size_t>(bytes.size() / 8, std::size_t{1} << 20)} {}

  result<pickle> read() {
    while (at_ < in_.size()) {
      op_at_ = at_;
      const auto op = static_cast<unsigned char>(in_[at_++]);
      if (op == '.') {
        if (!has(1)) return error{errc::invalid_input, wrong_, op_at_};
        out_.root = stack_.back();
        return std::move(out_);
      }
      if (!step(op)) return error{errc::invalid_input, wrong_, op_at_};
    }
    return error{errc::invalid_input, "the pickle is cut off: there is no STOP", in_.size()};
  }

 private:
  bool fail(const char* why) {
    wrong_ = why;
    return false;
  }

  // Each opcode's step is in the first of these that knows it.
  bool step(unsigned char op) {
    switch (op) {
      case 'c':
      case 'i':
      case 'o':
      case 'R':
      case 'b':
      case 'P':
      case 'Q':  // GLOBAL INST OBJ REDUCE BUILD
      case 0x81:
      case 0x92:
      case 0x93:
      case 0x82:
      case 0x83:
      case 0x84:  // (persistent ids) NEWOBJ EXT
        return fail("the pickle would run code, which is refused: it holds objects and not only data");
      case 0x97:
      case 0x98: return fail("the pickle refers to buffers outside of it");
      case 'I':
      case 'L':
      case 'S':
      case 'V':
      case 'F':
      case 'g':
      case 'p': return fail("a pickle of protocol 0, whose texts are not read: write it with protocol 2 or later");
      default: return known_number(op) || known_text(op) || known_container(op) || known_memo(op) || unknown();
    }
  }
  bool unknown() { return wrong_[0] == '\0' ? fail("no opcode of a pickle") : false; }

  bool take(std::uint64_t n, std::string_view& out) {
    if (n > in_.size() - at_) return fail("a length goes beyond the end of the pickle");
    out = in_.substr(at_, static_cast<std::size_t>(n));
    at_ += out.size();
    return true;
  }
  // `width` bytes, the lowest first.
  bool take_number(std::size_t width, std::uint64_t& out) {
    std::string_view raw;
    if (!take(width, raw)) return false;
    out = 0;
    for (std::size_t i = width; i-- != 0;) out = out << 8 | static_cast<unsigned char>(raw[i]);
    return true;
  }
  bool push(const value& v) {
    if (stack_.size() == most_waiting_) return fail("too many values wait for the list that holds them");
    stack_.push_back(v);
    return true;
  }
  // Returns the number of values below the last mark.
  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  bool has(std::size_t n) {
    return stack_.size() - floor() >= n || fail("an opcode wants more values than there are before it");
  }

  static value integer(std::string_view raw) {  // two's complement, the lowest byte first
    const bool negative = !raw.empty() && (static_cast<unsigned char>(raw.back()) & 0x80) != 0;
    const char fill = negative ? '\xff' : '\0';
    for (std::size_t i = 8; i < raw.size(); ++i) {
      if (raw[i] != fill) return {kind::other};
    }
    std::uint64_t n = 0;
    for (std::size_t i = 8; i-- != 0;) n = n << 8 | static_cast<unsigned char>(i < raw.size() ? raw[i] : fill);
    if (negative && n == 0) return {kind::other};  // 2^64 below zero
    return {kind::integer, negative, negative ? 0 - n : n};
  }
  bool push_integer(std::uint64_t width) {
    std::string_view raw;
    return take(width, raw) && push(integer(raw));
  }

  bool known_number(unsigned char op) {
    std::uint64_t n = 0;
    std::string_view raw;
    switch (op) {
      case 'N': return push({kind::none});
      case 0x88: return push({kind::boolean, false, 1});
      case 0x89: return push({kind::boolean, false, 0});
      case 'J': return push_integer(4);
      case 'K': return take_number(1, n) && push({kind::integer, false, n});
      case 'M': return take_number(2, n) && push({kind::integer, false, n});
      case 0x8a: return take_number(1, n) && push_integer(n);
      case 0x8b: return take_number(4, n) && push_integer(n);
      case 'G':
        if (!take(8, raw)) return false;
        for (const char c : raw) n = n << 8 | static_cast<unsigned char>(c);
        return push({kind::real, false, n});
      default: return false;
    }
  }

  bool push_text(std::size_t width) {
    std::uint64_t n = 0;
    std::string_view raw;
    if (!take_number(width, n) || !take(n, raw)) return false;
    out_.texts.push_back(raw);
    return push({kind::text, false, out_.texts.size() - 1});
  }
  bool known_text(unsigned char op) {
    switch (op) {
      case 0x8c:
      case 'C':
      case 'U': return push_text(1);
      case 'X':
      case 'B':
      case 'T': return push_text(4);
      case 0x8d:
      case 0x8e:
      case 0x96: return push_text(8);
      default: return false;
    }
  }

  bool push_container(kind what, std::size_t items = 0) {
    if (!has(items)) return false;
    std::vector<value> moved(stack_.end() - static_cast<std::ptrdiff_t>(items), stack_.end());
    if (what == kind::dict && moved.size() % 2 != 0) return fail("a dictionary has a key without a value");
    stack_.resize(stack_.size() - items);
    out_.containers.push_back(std::move(moved));
    return push({what, false, out_.containers.size() - 1});
  }
  bool pop_mark(std::size_t& items) {
    if (marks_.empty()) return fail("there is no MARK before an opcode that ends at one");
    items = stack_.size() - marks_.back();
    marks_.pop_back();
    return true;
  }
  bool append(kind to, std::size_t items) {
    if (!has(items + 1)) return false;
    const value& into = stack_[stack_.size() - items - 1];
    if (into.is != to) return fail("items are added to what holds none");
    if (to == kind::dict && items % 2 != 0) return fail("a dictionary has a key without a value");
    std::vector<value>& held = out_.containers[static_cast<std::size_t>(into.n)];
    held.insert(held.end(), stack_.end() - static_cast<std::ptrdiff_t>(items), stack_.end());
    stack_.resize(stack_.size() - items);
    return true;
  }
  bool known_container(unsigned char op) {
    std::size_t items = 0;
    switch (op) {
      case '(': marks_.push_back(stack_.size()); return true;
      case ']':
      case ')':
      case 0x8f: return push_container(kind::list);
      case '}': return push_container(kind::dict);
      case 0x85:
      case 0x86:
      case 0x87: return push_container(kind::list, op - 0x84u);
      case 'l':
      case 't':
      case 0x91: return pop_mark(items) && push_container(kind::list, items);
      case 'd': return pop_mark(items) && push_container(kind::dict, items);
      case 'a': return append(kind::list, 1);
      case 's': return append(kind::dict, 2);
      case 'e':
      case 0x90: return pop_mark(items) && append(kind::list, items);
      case 'u': return pop_mark(items) && append(kind::dict, items);
      case '0':
        if (!has(1)) return false;
        stack_.pop_back();
        return true;
      case '1':
        if (!pop_mark(items)) return false;
        stack_.resize(stack_.size() - items);
        return true;
      case '2': return has(1) && push(value{stack_.back()});
      default: return false;
    }
  }

  // Writers number the memo from 0 on. A number beyond all opcodes so far is refused, so that a few bytes cannot ask
  // for gigabytes of memo.
  bool put(std::uint64_t index) {
    if (!has(1)) return false;
    if (index > op_at_) return fail("the pickle leaves gaps in its memo");
    if (index >= memo_.size()) memo_.resize(static_cast<std::size_t>(index) + 1, {kind::other});
    memo_[static_cast<std::size_t>(index)] = stack_.back();
    return true;
  }
  bool get(std::uint64_t index) {
    if (index >= memo_.size()) return fail("the pickle mentions again what it did not mention");
    return push(memo_[static_cast<std::size_t>(index)]);
  }
  bool known_memo(unsigned char op) {
    std::uint64_t n = 0;
    switch (op) {
      case 0x80:  // PROTO
        if (!take_number(1, n)) return false;
        return n <= 5 || fail("a pickle of a protocol after 5");
      case 0x95:  // FRAME: how much may be read at once; all is here already
        if (!take_number(8, n)) return false;
        return n <= in_.size() - at_ || fail("a length goes beyond the end of the pickle");
      case 0x94: return put(memo_.size());
      case 'q': return take_number(1, n) && put(n);
      case 'r': return take_number(4, n) && put(n);
      case 'h': return take_number(1, n) && get(n);
      case 'j': return take_number(4, n) && get(n);
      default: return false;
    }
  }

  std::string_view in_;
  // The most values of lists that wait, as libtorch writes each list at once. The shortest values take a byte of the
  // file and a hundred of memory; useful ones take more than ten of the file.
  std::size_t most_waiting_;
  std::size_t at_ = 0;
  std::size_t op_at_ = 0;
  const char* wrong_ = "";
  std::vector<value> stack_;
  std::vector<std::size_t> marks_;
  std::vector<value> memo_;
  pickle out_;
};

}  // namespace

const std::vector<value>* pickle::list(const value& v) const noexcept {
  if (v.is != kind::list && v.is != kind::dict) return nullptr;
  return &containers[static_cast<std::size_t>(v.n)];
}

std::optional<std::string_view> pickle::text(const value& v) const noexcept {
  if (v.is != kind::text) return std::nullopt;
  return texts[static_cast<std::size_t>(v.n)];
}

std::optional<std::uint64_t> pickle::number(const value& v) noexcept {
  if (v.is != kind::integer || v.negative) return std::nullopt;
  return v.n;
}

const value* pickle::find(const value& dict, std::string_view key) const noexcept {
  if (dict.is != kind::dict) return nullptr;
  const std::vector<value>& items = *list(dict);
  for (std::size_t i = items.size(); i != 0; i -= 2) {
    if (text(items[i - 2]) == key) return &items[i - 1];
  }
  return nullptr;
}

result<pickle> read_pickle(std::string_view bytes) {
  return reader{bytes}.read();
}

}  // namespace berth::trace
