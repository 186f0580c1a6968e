#include "model/checkpoint/gguf_tokenizer.h"

#include <fmt/format.h>

#include <vector>

#include "core/errors/error.h"
#include "core/text/json.h"
#include "formats/container_error.h"
#include "model/checkpoint/gguf_config.h"
#include "text/bpe_model.h"
#include "text/expression.h"

namespace nibble {
namespace {

using TokenizerJson = nlohmann::json;

constexpr std::string_view kVocabularyPrefix{"tokenizer.ggml."}, kModel{"gpt2"}, kPre{"gpt-4o"},
    kOllamaPre{"default"}, kNoModel{"no_vocab"};

enum TokenType : int32_t { kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5 };

class VocabularyReader {  // errors name the file and the key
 public:
  explicit VocabularyReader(const Gguf& gguf) : gguf_(gguf) {}

  void must_be(std::string_view key, std::string_view expected) const {
    const GgufValue* value = find(key);
    const auto text = value ? value->text() : std::nullopt;
    if (text != expected)
      refuse(key,
             fmt::format("is {}; expected {}", text ? in_quotes(*text) : "missing", in_quotes(expected)));
  }
  bool is(std::string_view key, std::string_view text) const {
    const GgufValue* value = find(key);
    return value && value->text() == text;
  }
  std::vector<std::string_view> texts(std::string_view key) const {
    const GgufValue* value = find(key);
    const auto list = value ? value->texts() : std::nullopt;
    if (!list) refuse(key, value ? "is not a list of strings" : "is missing");
    return *list;
  }
  std::vector<int64_t> integers(std::string_view key) const {
    const GgufValue* value = find(key);
    const auto list = value ? value->integers() : std::nullopt;
    if (!list) refuse(key, value ? "is not a list of whole numbers" : "is missing");
    return *list;
  }
  [[noreturn]] void refuse(std::string_view key, const std::string& why) const {
    throw InputError("{}: metadata '{}{}' {}", gguf_.files[0].string(), kVocabularyPrefix, key, why);
  }
  std::string quoted(std::string_view key, std::string_view text) const {
    try {
      return TokenizerJson(text).dump();
    } catch (const TokenizerJson::type_error&) {
      refuse(key, fmt::format("contains {}, which is not UTF-8", in_quotes(text)));
    }
  }

 private:
  const GgufValue* find(std::string_view key) const {
    return gguf_.value(std::string(kVocabularyPrefix) + std::string(key));
  }
  const Gguf& gguf_;
};

void append_item(std::string& list, std::string_view item) {
  if (!list.empty()) list += ',';
  list += item;
}

// Whether BPE merges, applied to each token's bytes, yield that token. Special and added tokens are skipped.
bool merging_makes_all_tokens(const BpeModel& model) {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < model.vocabulary.num_ids(); ++id) {
    if (model.vocabulary.is_special(id) || model.vocabulary.is_added(id) ||
        model.vocabulary.bytes(id).empty())
      continue;
    ids.clear();
    model.merges.apply(model.vocabulary.bytes(id), ids);
    if (ids.size() != 1) return false;
  }
  return true;
}

}  // namespace

bool has_tokenizer(const Gguf& gguf) {
  const GgufValue* model = gguf.value("tokenizer.ggml.model");
  return model && model->text() != kNoModel;
}

std::string tokenizer_json(const Gguf& gguf) {
  const VocabularyReader reader(gguf);
  if (!has_tokenizer(gguf))
    throw InputError("{}: has no vocabulary: choose one with --tokenizer, or use '--tokenizer bytes'",
                     gguf.files[0].string());
  reader.must_be("model", kModel);
  // Ollama's converter writes "default"; Ollama ignores the key and uses o200k's expression for this model.
  reader.must_be("pre", is_of_ollama(gguf) && reader.is("pre", kOllamaPre) ? kOllamaPre : kPre);
  const std::vector<std::string_view> tokens = reader.texts("tokens"), merges = reader.texts("merges");
  const std::vector<int64_t> types = reader.integers("token_type");
  if (types.size() != tokens.size())
    reader.refuse("token_type", fmt::format("has {} entries for {} tokens", types.size(), tokens.size()));
  if (const GgufTensor* embedding = gguf.find("token_embd.weight");
      embedding && !embedding->shape.empty() && tokens.size() > embedding->shape[0])
    reader.refuse("tokens", fmt::format("has {} entries, but the embedding has {} rows", tokens.size(),
                                        embedding->shape[0]));

  std::string added, vocabulary, pairs;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] == kUnused) continue;
    const std::string token = reader.quoted("tokens", tokens[id]);
    if (types[id] == kNormal)
      append_item(vocabulary, fmt::format("{}:{}", token, id));
    else if (types[id] == kControl || types[id] == kUserDefined)
      append_item(added,
                  fmt::format(R"({{"id":{},"content":{},"single_word":false,"lstrip":false,"rstrip":false,)"
                              R"("normalized":false,"special":{}}})",
                              id, token, types[id] == kControl));
    else
      reader.refuse(
          "token_type",
          fmt::format("is {} for token {}; expected 1 (normal), 3 (control), 4 (user-defined) or 5 (unused)",
                      types[id], id));
  }
  for (const std::string_view merge : merges) {
    const size_t space = merge.find(' ');
    if (space == std::string_view::npos)
      reader.refuse("merges",
                    fmt::format("contains {}, which has no space between two tokens", in_quotes(merge)));
    append_item(pairs, fmt::format("[{},{}]", reader.quoted("merges", merge.substr(0, space)),
                                   reader.quoted("merges", merge.substr(space + 1))));
  }
  return fmt::format(
      R"({{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{}],"normalizer":null,)"
      R"("pre_tokenizer":{{"type":"Sequence","pretokenizers":[{{"type":"Split","pattern":{{"Regex":{}}},)"
      R"("behavior":"Isolated","invert":false}},{{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,)"
      R"("use_regex":false}}]}},"post_processor":null,"decoder":{{"type":"ByteLevel","add_prefix_space":true,)"
      R"("trim_offsets":true,"use_regex":true}},"model":{{"type":"BPE","dropout":null,"unk_token":null,)"
      R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,)"
      R"("ignore_merges":true,"vocab":{{{}}},"merges":[{}]}}}})",
      added, TokenizerJson(kO200kExpression).dump(), vocabulary, pairs);
}

void add_tokenizer(std::string_view json, const std::string& origin, int vocab, GgufMetadata& metadata) {
  const BpeModel model = read_tokenizer_json(json, origin);  // throws if the vocabulary is not supported
  if (model.split_expression != kO200kExpression)
    throw InputError("{}: its split expression is not o200k's; GGUF has no name for another", origin);
  if (!model.takes_whole_pieces && !merging_makes_all_tokens(model))
    throw InputError(
        "{}: has tokens that merging can't produce, and no 'ignore_merges': GGUF can't express that", origin);
  if (model.vocabulary.num_ids() > vocab)
    throw InputError("{}: has ids up to {}, but the model has {} rows", origin,
                     model.vocabulary.num_ids() - 1, vocab);

  std::vector<std::string> tokens;
  std::vector<int32_t> types(static_cast<size_t>(vocab), kUnused);
  for (int id = 0; id < vocab; ++id) tokens.push_back(fmt::format("[PAD{}]", id));
  const auto set = [&](int64_t id, std::string text, TokenType type) {
    tokens[static_cast<size_t>(id)] = std::move(text);
    types[static_cast<size_t>(id)] = type;
  };
  const TokenizerJson root = TokenizerJson::parse(json);
  for (const auto& [text, id] : root["model"]["vocab"].items()) set(id.get<int64_t>(), text, kNormal);
  for (const TokenizerJson& token : root.value("added_tokens", TokenizerJson::array()))
    set(token["id"].get<int64_t>(), token["content"].get<std::string>(),
        model.vocabulary.is_special(token["id"].get<TokenId>()) ? kControl : kUserDefined);
  std::vector<std::string> merges;
  for (const TokenizerJson& merge : root["model"]["merges"])
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  metadata.add("tokenizer.ggml.model", kModel);
  metadata.add("tokenizer.ggml.pre", kPre);
  metadata.add("tokenizer.ggml.tokens", tokens);
  metadata.add("tokenizer.ggml.token_type", types);
  metadata.add("tokenizer.ggml.merges", merges);
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] != kControl) continue;
    if (tokens[id] == "<|startoftext|>")
      metadata.add("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(id));
    if (tokens[id] == "<|endoftext|>")
      metadata.add("tokenizer.ggml.padding_token_id", static_cast<uint32_t>(id));
  }
  metadata.add("tokenizer.ggml.add_bos_token", false);
}

void add_no_tokenizer(GgufMetadata& metadata) { metadata.add("tokenizer.ggml.model", kNoModel); }

}  // namespace nibble
