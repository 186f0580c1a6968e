#include "setup/model/tokenizer.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "core/errors/error.h"
#include "formats/gguf.h"
#include "model/checkpoint/gguf_tokenizer.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

// Returns a .tiktoken file with the 256 bytes. Each line is a byte in base64, a space, and the byte's rank.
std::string byte_ranks() {
  constexpr std::string_view kBase64{"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"};
  std::string ranks;
  for (unsigned byte = 0; byte < 256; ++byte)
    ranks += fmt::format("{}{}== {}\n", kBase64[byte >> 2], kBase64[(byte & 3) << 4], byte);
  return ranks;
}

Tokenizer byte_tokenizer() { return Tokenizer::from_tiktoken(byte_ranks(), "the byte vocabulary"); }

std::string json_of_gguf(const fs::path& file) { return tokenizer_json(open_gguf(file)); }

bool is_vocabulary_file(const ModelSource& source) {  // MODEL is one, as `nibble tokenize` accepts
  return fs::is_regular_file(source.path) && source.path.extension() != ".safetensors";
}

fs::path folder_of_vocabulary(const ModelSource& source) {
  // If the weights are in OpenAI's folder original/, the vocabulary is in its parent folder.
  for (const fs::path& folder : {source.folder(), source.folder() / ".."})
    if (fs::is_regular_file(folder / "tokenizer.json")) return folder;
  throw InputError("{}: no tokenizer.json in {}; give one with --tokenizer, or use '--tokenizer bytes'",
                   source.name, fs::absolute(source.folder()).string());
}

}  // namespace

Tokenizer open_tokenizer(const ModelSource& source, const Places& places) {
  if (places.vocabulary == Places::Vocabulary::kFile) return Tokenizer::open(places.vocabulary_file);
  if (places.vocabulary == Places::Vocabulary::kBytes || source.synthetic) return byte_tokenizer();
  if (is_gguf(source.path))
    return Tokenizer::from_json(json_of_gguf(source.path),
                                source.path.string() + ": vocabulary as a tokenizer.json");
  return Tokenizer::open(is_vocabulary_file(source) ? source.path : folder_of_vocabulary(source));
}

void require_tokenizer(const ModelSource& source, const Places& places) {
  if (places.vocabulary != Places::Vocabulary::kOfModel || source.synthetic) return;
  if (is_gguf(source.path))
    json_of_gguf(source.path);
  else if (!is_vocabulary_file(source))
    folder_of_vocabulary(source);
}

}  // namespace nibble
