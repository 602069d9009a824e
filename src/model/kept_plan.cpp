#include "model/kept_plan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <exception>

namespace berth::model {

namespace {

constexpr std::size_t digest_bytes = 32, head_bytes = 5;
constexpr char entry_version = 2;

// The first 32 bits behind the point of the square roots of the first 8 primes, and of the cube roots of the first 64.
constexpr std::array<std::uint32_t, 8> square_roots{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
constexpr std::array<std::uint32_t, 64> cube_roots{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void add_block(std::array<std::uint32_t, 8>& state, const char* block) {
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
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + cube_roots[i] + w[i];
    const std::uint32_t two = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
  }
  const std::array<std::uint32_t, 8> sum{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += sum[i];
}

}  // namespace

std::string sha256(std::string_view text) {
  std::array<std::uint32_t, 8> state = square_roots;
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
  for (std::uint64_t next = 0; next < shards;) {
    shard = next;
    random = random * 2862933555777941757 + 1;
    next = ((shard + 1) << 31) / ((random >> 33) + 1);
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
