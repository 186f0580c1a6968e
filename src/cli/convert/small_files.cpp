#include "cli/convert/small_files.h"

#include <algorithm>
#include <system_error>

#include "core/files/mapped_file.h"
#include "core/text/json.h"
#include "harmony/control_tokens.h"
#include "model/checkpoint/gguf_tokenizer.h"
#include "model/checkpoint/write_gguf.h"
#include "text/tokenizer.h"

namespace nibble::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVocabulary{"tokenizer.json"};
constexpr const char* kTemplate{"chat_template.jinja"};
constexpr const char* kGeneration{"generation_config.json"};
constexpr const char* kOthers[]{kGeneration, "tokenizer_config.json", "special_tokens_map.json"};

// Makes a generation_config.json like transformers'. Empty if the vocabulary lacks harmony's stop tokens.
std::string generation_config(const Gguf& gguf, const std::string& vocabulary) {
  const Tokenizer tokenizer = Tokenizer::from_json(vocabulary, gguf.files[0].string());
  if (!tokenizer.special("<|return|>") || !tokenizer.special("<|call|>")) return {};
  Json config;
  if (const auto begin = tokenizer.special("<|startoftext|>")) config["bos_token_id"] = *begin;
  config["do_sample"] = true;  // sample from the model's own distribution, as OpenAI recommends
  config["eos_token_id"] = harmony::stop_tokens(tokenizer);
  if (const auto padding = tokenizer.special("<|endoftext|>")) config["pad_token_id"] = *padding;
  return config.dump(2) + "\n";
}

}  // namespace

std::vector<TextFile> small_files_beside(const ModelSource& source) {
  std::vector<TextFile> files;
  const auto add = [&](const char* name) {
    const fs::path file = source.folder() / name;
    std::error_code no_such_file;
    if (fs::is_regular_file(file, no_such_file)) files.push_back({name, read_text_file(file)});
  };
  if (source.synthetic) return files;
  for (const char* name : {kVocabulary, kTemplate}) add(name);
  for (const char* name : kOthers) add(name);
  return files;
}

std::vector<TextFile> small_files_in(const Gguf& gguf) {
  std::vector<TextFile> files;
  const auto add_value = [&](const char* name, const std::string& key) {
    const GgufValue* value = gguf.value(key);
    if (const auto text = value ? value->text() : std::nullopt) files.push_back({name, std::string(*text)});
  };
  if (has_tokenizer(gguf)) files.push_back({kVocabulary, tokenizer_json(gguf)});
  add_value(kTemplate, "tokenizer.chat_template");
  for (const char* name : kOthers) add_value(name, gguf_key_of_file(name));
  const bool has_generation =
      std::ranges::any_of(files, [](const TextFile& file) { return file.name == kGeneration; });
  if (has_tokenizer(gguf) && !has_generation)
    if (std::string made = generation_config(gguf, files.front().text); !made.empty())
      files.push_back({kGeneration, std::move(made)});
  return files;
}

}  // namespace nibble::cli
