#include "text/tokenizer.h"

#include <utility>

#include "core/files/mapped_file.h"
#include "text/bpe_model.h"
#include "text/pre_tokeniser.h"
#include "text/special_names.h"
#include "text/utf8.h"

namespace nibble {

struct Tokenizer::Impl {
  Impl(BpeModel bpe, const std::string& origin)
      : model(std::move(bpe)),
        pre_tokeniser(model.split_expression, origin),
        special_names(model.vocabulary),
        added_names(model.vocabulary, SpecialNames::Of::kAddedTokens) {}

  void encode_piece(std::string_view piece, std::vector<TokenId>& ids) const;
  void encode_ordinary(std::string_view text, PreTokeniser::Pieces& pieces, std::vector<TokenId>& ids) const;

  BpeModel model;
  PreTokeniser pre_tokeniser;
  SpecialNames special_names;  // names of special and added tokens
  SpecialNames added_names;
};

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::open(const std::filesystem::path& path) {
  std::error_code ignored;  // MappedFile will report this error
  const MappedFile file(std::filesystem::is_directory(path, ignored) ? path / "tokenizer.json" : path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && text[first] == '{';  // rank files begin with base64
  const std::string origin = file.path().string();
  return is_json ? from_json(text, origin) : from_tiktoken(text, origin);
}

Tokenizer Tokenizer::from_json(std::string_view json, const std::string& origin) {
  return Tokenizer(std::make_unique<const Impl>(read_tokenizer_json(json, origin), origin));
}

Tokenizer Tokenizer::from_tiktoken(std::string_view ranks, const std::string& origin) {
  return Tokenizer(std::make_unique<const Impl>(read_tiktoken(ranks, origin), origin));
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3);  // enough for English, where a token of o200k has 4 to 5 bytes
  PreTokeniser::Pieces pieces(impl_->pre_tokeniser);
  const SpecialNames& names =
      special == SpecialTokens::kRecognise ? impl_->special_names : impl_->added_names;
  while (!names.is_empty()) {
    const auto found = names.find(text);
    if (!found) break;
    impl_->encode_ordinary(text.substr(0, found->begin), pieces, ids);
    ids.push_back(found->id);
    text.remove_prefix(found->begin + found->num_bytes);
  }
  impl_->encode_ordinary(text, pieces, ids);
  return ids;
}

// An ill-formed byte becomes a token of its own. Text before it is split as if the input ended there.
void Tokenizer::Impl::encode_ordinary(std::string_view text, PreTokeniser::Pieces& pieces,
                                      std::vector<TokenId>& ids) const {
  while (!text.empty()) {
    const size_t num_well_formed = well_formed_prefix(text);
    pieces.start(text.substr(0, num_well_formed));
    while (const auto piece = pieces.next()) encode_piece(*piece, ids);
    text.remove_prefix(num_well_formed);
    if (text.empty()) break;
    const size_t num_ill_formed = first_utf8_part(text).num_bytes;
    for (const char byte : text.substr(0, num_ill_formed)) ids.push_back(model.merges.byte_token(byte));
    text.remove_prefix(num_ill_formed);
  }
}

void Tokenizer::Impl::encode_piece(std::string_view piece, std::vector<TokenId>& ids) const {
  if (model.takes_whole_pieces) {
    if (const auto whole = model.vocabulary.find(piece)) return ids.push_back(*whole);
  }
  model.merges.apply(piece, ids);
}

std::string_view Tokenizer::bytes(TokenId id) const { return impl_->model.vocabulary.bytes(id); }

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) text += bytes(id);
  return text;
}

bool Tokenizer::is_special(TokenId id) const { return impl_->model.vocabulary.is_special(id); }

std::optional<TokenId> Tokenizer::special(std::string_view name) const {
  const std::optional<TokenId> id = impl_->special_names.id(name);
  return id && is_special(*id) ? id : std::nullopt;
}

int Tokenizer::num_tokens() const { return impl_->model.vocabulary.num_ids(); }

}  // namespace nibble
