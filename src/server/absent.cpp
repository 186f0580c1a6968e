#include "server/absent.h"

#include "core/text/take_until.h"

namespace nibble::server {
namespace {

constexpr std::string_view kNoVectors{"gpt-oss has no embeddings; use an embedding model on another server"};
constexpr std::string_view kNoStore{
    "nibble does not store files, batches or conversations; send requests one by one"};

struct AbsentRow {
  std::string_view paths;  // separated by spaces; the row covers these paths and every path below them
  std::string_view reason;
  ErrorForm errors{ErrorForm::kOpenAi};
};
constexpr AbsentRow kAbsent[] = {
    {"/v1/embeddings /embedding /embeddings /pooling", kNoVectors},
    {"/v1/rerank /v2/rerank /rerank /v1/reranking /reranking /v1/score /score /classify",
     "gpt-oss does not rank or score texts; use a reranking model on another server"},
    {"/v1/moderations", "nibble has no moderation model"},
    {"/v1/audio /v1/images /v1/videos /v1/realtime", "gpt-oss reads and writes text only"},
    {"/v1/batches /v1/files /v1/uploads /v1/vector_stores /v1/containers /v1/assistants /v1/threads",
     kNoStore},
    {"/v1/conversations",
     "nibble does not store conversations: name a stored response in previous_response_id"},
    {"/v1/responses/compact",
     "nibble does not compact conversations: ask the model for a summary, or set truncation to auto"},
    {"/v1/messages/batches", kNoStore, ErrorForm::kAnthropic},
    {"/v1/fine_tuning /v1/evals", "nibble serves a model, but does not train or evaluate models"},
    {"/v1/load_lora_adapter /v1/unload_lora_adapter /lora-adapters",
     "LoRA adapters are loaded when nibble starts: --lora-modules NAME=FILE, or --lora FILE"},
    {"/infill", "gpt-oss does not fill in text between a prefix and a suffix"},
    {"/slots", "nibble has no slots; /status.json shows the running answers"},
    {"/completion /generate /generate_stream /inference",
     "this API belongs to another server; use /v1/completions or /v1/chat/completions"},
    {"/api/embed /api/embeddings", kNoVectors, ErrorForm::kOllama},
    {"/api/pull /api/push /api/create /api/copy /api/delete /api/blobs",
     "nibble serves only the model that it was started with", ErrorForm::kOllama},
};

}  // namespace

std::optional<AbsentEndpoint> find_absent(std::string_view path) {
  for (const AbsentRow& row : kAbsent)
    for (std::string_view rest = row.paths; !rest.empty();) {
      const std::string_view known = take_until(rest, ' ');
      if (path.starts_with(known) && (path.size() == known.size() || path[known.size()] == '/'))
        return AbsentEndpoint{known, row.reason, row.errors};
    }
  return std::nullopt;
}

}  // namespace nibble::server
