// Reads a Hugging Face tokenizer.json. Only gpt-oss's pipeline is supported (Split, then ByteLevel, then BPE,
// without a normaliser); all other pipelines are refused. Members that can't change ids are not read:
// `unk_token`, `fuse_unk` and `byte_fallback` (all 256 bytes must have a token), `trim_offsets`, and
// `truncation` and `padding`, which are set per call.
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/errors/error.h"
#include "text/bpe_model.h"

namespace nibble {
namespace {

using simdjson::dom::element;

// The alphabet in which a tokenizer.json writes bytes: one printable character per byte. The bytes 0x21 to
// 0x7E, 0xA1 to 0xAC and 0xAE to 0xFF are the code points of the same number. The other 68 bytes, in order,
// are U+0100 to U+0143 (a space is U+0120).
constexpr size_t kAlphabetEnd{0x144};

constexpr auto kByteOf = [] {  // byte of each code point; -1: none
  std::array<int16_t, kAlphabetEnd> bytes{};
  bytes.fill(-1);
  size_t next_moved = 0x100;
  for (int16_t byte = 0; byte < 256; ++byte) {
    const bool is_itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    bytes[is_itself ? static_cast<size_t>(byte) : next_moved++] = byte;
  }
  return bytes;
}();

// Appends the bytes for `letters`. Returns false if a character is not in the alphabet.
bool append_byte_level(std::string_view letters, std::string& bytes) {
  for (size_t i = 0; i < letters.size(); ++i) {
    size_t code_point = static_cast<uint8_t>(letters[i]);
    if (code_point >= 0x80) {  // letters above ASCII take two bytes of UTF-8
      if (code_point < 0xC2 || code_point > 0xDF || i + 1 == letters.size()) return false;
      code_point = (code_point & 0x1F) << 6 | (static_cast<uint8_t>(letters[++i]) & 0x3F);
    }
    if (code_point >= kAlphabetEnd || kByteOf[code_point] < 0) return false;
    bytes += static_cast<char>(kByteOf[code_point]);
  }
  return true;
}

// Returns text from the file for an error message: control characters escaped, at most 100 bytes.
std::string shown(std::string_view text) {
  constexpr size_t kMaxShown{100};
  size_t length = std::min(text.size(), kMaxShown);
  while (length < text.size() && (text[length] & 0xC0) == 0x80) --length;  // never cuts inside a character
  std::string shown;
  for (const char c : text.substr(0, length)) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7F)
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      shown += c;
  }
  return text.size() <= kMaxShown ? shown : shown + "...";
}

// A parsed JSON file. Each error names the file and the JSON pointer of the value.
class Document {
 public:
  Document(std::string_view json, std::string origin) : origin_(std::move(origin)) {
    const simdjson::padded_string padded(json);
    if (const auto error = parser_.parse(padded).get(root_); error != simdjson::SUCCESS)
      throw InputError("{}: not valid JSON: {}", origin_, simdjson::error_message(error));
  }

  // Returns nullopt if the value is absent or null. `place` is a JSON pointer: "/model/type".
  std::optional<element> find(std::string_view place) const {
    element value;
    if (root_.at_pointer(place).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
    return value;
  }

  template <typename T>
  T get(std::string_view place, std::string_view type) const {
    const auto value = find(place);
    T typed;
    if (!value || value->get(typed) != simdjson::SUCCESS)
      throw InputError("{}: {} must be {}.", origin_, place, type);
    return typed;
  }

  std::string_view text(std::string_view place) const { return get<std::string_view>(place, "a string"); }

  void require(std::string_view place, std::string_view expected) const {
    const std::string_view value = text(place);
    if (value != expected)
      throw InputError("{}: {} is '{}'; nibble supports only '{}'.", origin_, place, shown(value), expected);
  }

  bool flag(std::string_view place, bool if_absent) const {
    return find(place) ? get<bool>(place, "true or false") : if_absent;
  }

  void require(std::string_view place, bool expected, bool if_absent) const {
    const bool value = flag(place, if_absent);
    if (value != expected)
      throw InputError("{}: {} is {}; nibble supports only {}.", origin_, place, value, expected);
  }

  // Refuses a component unless it is absent, null, or `nothing`, the JSON of a component without effect.
  void require_nothing(std::string_view place, std::string_view nothing) const {
    const auto value = find(place);
    if (value && simdjson::minify(*value) != nothing)
      throw InputError("{}: {} is set, which changes how text is encoded; nibble does not support it.",
                       origin_, place);
  }

  const std::string& origin() const { return origin_; }

 private:
  std::string origin_;
  simdjson::dom::parser parser_;
  element root_;
};

void check_pipeline(const Document& document) {
  document.require_nothing("/normalizer", "null");
  document.require("/pre_tokenizer/type", "Sequence");
  if (document.get<simdjson::dom::array>("/pre_tokenizer/pretokenizers", "a list").size() != 2)
    throw InputError(
        "{}: /pre_tokenizer/pretokenizers must have two parts: nibble supports only Split followed by "
        "ByteLevel.",
        document.origin());
  document.require("/pre_tokenizer/pretokenizers/0/type", "Split");
  // `invert` is not checked: with "Isolated" it makes no difference.
  document.require("/pre_tokenizer/pretokenizers/0/behavior", "Isolated");
  document.require("/pre_tokenizer/pretokenizers/1/type", "ByteLevel");
  document.require("/pre_tokenizer/pretokenizers/1/add_prefix_space", false, true);
  document.require("/pre_tokenizer/pretokenizers/1/use_regex", false, true);
  // A post-processor of type ByteLevel changes only offsets.
  if (document.find("/post_processor")) document.require("/post_processor/type", "ByteLevel");
  document.require("/decoder/type", "ByteLevel");
  document.require("/model/type", "BPE");
  document.require_nothing("/model/dropout", "0.0");
  document.require_nothing("/model/continuing_subword_prefix", "\"\"");
  document.require_nothing("/model/end_of_word_suffix", "\"\"");
}

TokenId token_id(std::optional<element> value, std::string_view token, const std::string& origin) {
  int64_t id = -1;
  if (!value || value->get(id) != simdjson::SUCCESS || id < 0 || id > Vocabulary::kMaxId)
    throw InputError("{}: the id of token '{}' must be an integer from 0 to {}.", origin, shown(token),
                     Vocabulary::kMaxId);
  return static_cast<TokenId>(id);
}

struct AddedToken {
  TokenId id;
  bool is_special;
};
using AddedTokens = std::unordered_map<std::string_view, AddedToken>;

// Whether the name looks like that of a control token. Some programs save harmony's control tokens without
// the flag "special". They are special nevertheless: user text must never be encoded to a control token.
bool looks_special(std::string_view name) { return name.starts_with("<|") && name.ends_with("|>"); }

AddedTokens read_added(const Document& document) {
  AddedTokens added;
  if (!document.find("/added_tokens")) return added;
  const size_t num_added = document.get<simdjson::dom::array>("/added_tokens", "a list").size();
  // Vocabularies have about a thousand added tokens. The limit is needed because simdjson finds the n-th
  // element of a list only by counting from the start, so reading all elements takes n^2 steps.
  constexpr size_t kMaxAdded{1 << 14};
  if (num_added > kMaxAdded)
    throw InputError("{}: /added_tokens has more than {} tokens.", document.origin(), kMaxAdded);
  for (size_t index = 0; index < num_added; ++index) {
    const std::string place = fmt::format("/added_tokens/{}", index);
    const std::string_view name = document.text(place + "/content");
    // With these flags, a token would match only whole words, or would include the spaces next to it.
    document.require(place + "/single_word", false, false);
    document.require(place + "/lstrip", false, false);
    document.require(place + "/rstrip", false, false);
    if (name.empty()) throw InputError("{}: {}/content is empty.", document.origin(), place);
    const bool is_special = document.flag(place + "/special", false) || looks_special(name);
    const TokenId id = token_id(document.find(place + "/id"), name, document.origin());
    if (!added.emplace(name, AddedToken{id, is_special}).second)
      throw InputError("{}: added token '{}' is listed twice.", document.origin(), shown(name));
  }
  return added;
}

Vocabulary read_vocabulary(const Document& document) {
  const AddedTokens added = read_added(document);
  const auto tokens = document.get<simdjson::dom::object>("/model/vocab", "an object");
  if (tokens.size() > Vocabulary::kMaxId)
    throw InputError("{}: /model/vocab has more than {} tokens.", document.origin(), Vocabulary::kMaxId);
  Vocabulary vocabulary(tokens.size());
  std::string bytes;
  for (const auto& [letters, value] : tokens) {
    const TokenId id = token_id(value, letters, document.origin());
    // Added tokens that some files list here too are skipped, so that merging can never produce one.
    if (const auto token = added.find(letters); token != added.end() && token->second.id == id) continue;
    bytes.clear();
    if (letters.empty() || !append_byte_level(letters, bytes))
      throw InputError("{}: token '{}' is not written in the byte-level alphabet.", document.origin(),
                       shown(letters));
    if (!vocabulary.add(id, bytes))
      throw InputError("{}: token '{}' with id {}: the token or the id is already in use.", document.origin(),
                       shown(letters), id);
  }
  for (const auto& [name, token] : added)
    if (!(token.is_special ? vocabulary.add_special(token.id, name) : vocabulary.add_added(token.id, name)))
      throw InputError("{}: added token '{}' has id {}, which another token already has.", document.origin(),
                       shown(name), token.id);
  return vocabulary;
}

struct Halves {
  std::string_view left, right;
};

// Splits a merge into its two tokens. A merge is ["a", "b"], or "a b" in older files.
std::optional<Halves> halves(element merge) {
  Halves found;
  if (merge.is_string()) {
    const std::string_view both = merge;
    const size_t space = both.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    return Halves{both.substr(0, space), both.substr(space + 1)};
  }
  if (!merge.is_array() || simdjson::dom::array(merge).size() != 2 ||
      merge.at(0).get(found.left) != simdjson::SUCCESS || merge.at(1).get(found.right) != simdjson::SUCCESS)
    return std::nullopt;
  return found;
}

Merges read_merges(const Document& document, const Vocabulary& vocabulary) {
  constexpr size_t kMaxMerges{1 << 23};  // twenty times the number of o200k's merges
  const auto list = document.get<simdjson::dom::array>("/model/merges", "a list");
  if (list.size() > kMaxMerges)
    throw InputError("{}: /model/merges has more than {} merges.", document.origin(), kMaxMerges);
  Merges merges(list.size(), byte_tokens(vocabulary, document.origin()));
  uint32_t index = 0;
  std::string bytes;
  const auto fail = [&](std::string_view why) {
    throw InputError("{}: /model/merges/{} {}.", document.origin(), index, why);
  };
  for (const element merge : list) {
    const auto pair = halves(merge);
    if (!pair) fail("is not a pair of tokens");
    bytes.clear();
    if (!append_byte_level(pair->left, bytes)) fail("is not written in the byte-level alphabet");
    const size_t cut = bytes.size();
    if (!append_byte_level(pair->right, bytes)) fail("is not written in the byte-level alphabet");
    const std::string_view both = bytes;
    const auto left = vocabulary.find(both.substr(0, cut)), right = vocabulary.find(both.substr(cut));
    const auto result = vocabulary.find(both);
    if (!left || !right || !result) fail("uses or produces a token that is not in /model/vocab");
    if (!merges.add(*left, *right, {index, *result})) fail("is listed twice");
    ++index;
  }
  return merges;
}

}  // namespace

BpeModel read_tokenizer_json(std::string_view json, const std::string& origin) {
  const Document document(json, origin);
  check_pipeline(document);
  Vocabulary vocabulary = read_vocabulary(document);
  Merges merges = read_merges(document, vocabulary);
  const bool takes_whole_pieces =
      document.find("/model/ignore_merges") && document.get<bool>("/model/ignore_merges", "true or false");
  return {std::move(vocabulary), std::move(merges),
          std::string(document.text("/pre_tokenizer/pretokenizers/0/pattern/Regex")), takes_whole_pieces};
}

}  // namespace nibble
