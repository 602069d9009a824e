#include "model/kept_plan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <exception>

namespace berth::model {

namespace {

constexpr std::size_t digest_bytes = 32, head_bytes = 5;
constexpr char entry_version = 2;
__extension__ using wide = unsigned __int128;

// Returns the first 32 bits behind the point of the cube roots of the first primes (their square roots with `square`).
template <std::size_t N>
std::array<std::uint32_t, N> root_bits(bool square) {
  std::array<std::uint32_t, N> bits{};
  std::uint32_t prime = 1;
  for (std::uint32_t& each : bits) {
    bool divided = true;
    while (divided) {
      ++prime;
      divided = false;
      for (std::uint32_t d = 2; d * d <= prime; ++d) divided = divided || prime % d == 0;
    }
    wide low = 0, high = std::uint64_t{32} << 32;  // the root times 2^32
    while (high - low > 1) {
      const wide middle = (low + high) / 2;
      const bool above = square ? middle * middle > wide{prime} << 64 : middle * middle * middle > wide{prime} << 96;
      (above ? high : low) = middle;
    }
    each = static_cast<std::uint32_t>(low);
  }
  return bits;
}

void add_block(std::array<std::uint32_t, 8>& state, const char* block) {
  static const auto constants = root_bits<64>(false);
  std::array<std::uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = 0;
    for (std::size_t b = 0; b < 4; ++b) w[i] = w[i] << 8 | static_cast<unsigned char>(block[4 * i + b]);
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t one =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + constants[i] + w[i];
    const std::uint32_t two = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
  }
  const std::array<std::uint32_t, 8> sum{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += sum[i];
}

}  // namespace

std::string sha256(std::string_view text) {
  static const auto initial = root_bits<8>(true);
  std::array<std::uint32_t, 8> state = initial;
  const std::uint64_t bits = std::uint64_t{text.size()} * 8;
  for (; text.size() >= 64; text.remove_prefix(64)) add_block(state, text.data());
  std::string last{text};
  last += '\x80';
  last.resize((last.size() + 8 + 63) / 64 * 64);
  for (std::size_t i = 0; i < 8; ++i) last[last.size() - 1 - i] = static_cast<char>(bits >> (8 * i));
  for (std::size_t at = 0; at < last.size(); at += 64) add_block(state, last.data() + at);
  std::string digest;
  for (const std::uint32_t word : state) {
    for (int shift = 24; shift >= 0; shift -= 8) digest += static_cast<char>(word >> shift);
  }
  return digest;
}

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    text += "0123456789abcdef"[c & 15];
  }
  return text;
}

std::uint64_t shard_of(std::string_view content, std::uint64_t shards) {
  std::uint64_t random = 0;
  for (const char c : sha256(content).substr(0, 8)) random = random << 8 | static_cast<unsigned char>(c);
  std::uint64_t shard = 0;
  for (wide next = 0; next < shards;) {
    shard = static_cast<std::uint64_t>(next);
    random = random * 2862933555777941757 + 1;
    next = ((wide{shard} + 1) << 31) / ((random >> 33) + 1);
  }
  return shard;
}

std::string options_text(const std::string& effort, const plan::options& o) {
  return "berth plans " + std::to_string(planner_revision) + ' ' + effort + ' ' + std::to_string(o.node_limit) +
         (o.penalty_first ? " 1 " : " 0 ") +
         (o.deadline_s ? std::to_string(std::bit_cast<std::uint64_t>(*o.deadline_s)) : "-") + '\n';
}

std::string name_of(const ordered& problem, const std::string& effort, const plan::options& options) {
  return hex(sha256(options_text(effort, options) + problem.packed));
}

std::string entry_of(const plan::plan& answer, const ordered& problem, float seconds) {
  std::string rest(digest_bytes, '\0');
  rest += entry_version;
  for (int shift = 0; shift < 32; shift += 8) rest += static_cast<char>(std::bit_cast<std::uint32_t>(seconds) >> shift);
  rest += pack(renumbered(answer, inverse(problem.order)));
  return sha256(rest) + rest;
}

std::optional<plan::plan> plan_of_entry(const problem_file& file, const ordered& problem, std::string_view entry,
                                        plan_texts& texts, std::string& why) try {
  const std::string_view rest = entry.substr(std::min(entry.size(), digest_bytes));
  if (rest.size() < digest_bytes + head_bytes || sha256(rest) != entry.substr(0, digest_bytes) ||
      rest[digest_bytes] != entry_version) {
    why = "damaged, or of another version";
    return std::nullopt;
  }
  const plan::plan kept = unpack_plan(file, rest.substr(digest_bytes + head_bytes), texts);
  plan::plan answer = renumbered(kept, problem.order);
  if (judge(file, answer, true)) return answer;
  why = unproved;
  return std::nullopt;
} catch (const std::exception& error) {
  why = error.what();
  return std::nullopt;
}

}  // namespace berth::model
