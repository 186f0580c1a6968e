#include "server/http/url.h"

#include <gtest/gtest.h>

namespace nibble::server {
namespace {

TEST(Url, CodesAreDecodedAndWhatIsNoneStays) {
  EXPECT_EQ(url_decoded("openai%2Fgpt%20x"), "openai/gpt x");
  for (const char* text : {"%", "%2", "%zz", "a%", "%-1"}) EXPECT_EQ(url_decoded(text), text);
}

TEST(Url, AValueIsFoundByItsWholeName) {
  EXPECT_EQ(query_value("xlimit=1&limit=2&after=a%26b", "limit"), "2");
  EXPECT_EQ(query_value("limit=2&after=a%26b", "after"), "a&b");
  EXPECT_EQ(query_value("beta", "beta"), "");
  EXPECT_EQ(query_value("limit=2", "lim"), std::nullopt);
  EXPECT_EQ(query_value("", "x"), std::nullopt);
}

TEST(Url, AnIdStandsInItsPlace) {
  EXPECT_EQ(match_path("/v1/responses/{id}/cancel", "/v1/responses/resp_1/cancel"), "resp_1");
  EXPECT_EQ(match_path("/v1/models/{id}", "/v1/models/openai/gpt"), "openai/gpt");
  EXPECT_EQ(match_path("/v1/models", "/v1/models"), "");
  for (const char* path : {"/v1/models/", "/v1/model", "/v1/responses//cancel"})
    EXPECT_FALSE(match_path("/v1/models/{id}", path)) << path;
  EXPECT_FALSE(match_path("/v1/responses/{id}/cancel", "/v1/responses/cancel"));
}

TEST(Url, SlashesTooManyChangeNoPath) {
  for (const char* path :
       {"/v1/models", "//v1/models", "/v1//models", "/v1/models/", "/models", "//models//"})
    EXPECT_EQ(with_v1(path), "/v1/models") << path;
  EXPECT_EQ(with_v1("/"), "/");
  EXPECT_EQ(with_v1("//"), "/");
  EXPECT_EQ(with_v1("/v1/v1/models"), "/v1/v1/models");
}

}  // namespace
}  // namespace nibble::server
