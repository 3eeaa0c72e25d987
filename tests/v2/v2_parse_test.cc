// What requests mean, and in which words bad ones are refused (read off real answers of etcd 3.4).
#include "server/api/v2_parse.h"

#include <gtest/gtest.h>

#include <string>

namespace rallypoint::server {
namespace {

constexpr std::string_view kForm = "application/x-www-form-urlencoded";

V2Request put(std::string_view body, std::string_view target = "/v2/keys/p", std::string_view type = kForm) {
  return parse_v2_request("PUT", target, type, body);
}
V2Request get(std::string_view target) { return parse_v2_request("GET", target, "", ""); }

template <class T>
T as(const V2Request& request) {
  if (const auto* value = std::get_if<T>(&request)) return *value;
  if (const auto* error = std::get_if<v2::Error>(&request)) {
    ADD_FAILURE() << "error " << error->code << ' ' << error->cause;
  } else {
    ADD_FAILURE() << "alternative " << request.index();
  }
  return {};
}
v2::WriteRequest write(const V2Request& request) { return as<v2::WriteRequest>(request); }

/// "209 cause" for a refused request, "fine" otherwise.
std::string refusal(const V2Request& request) {
  const auto* error = std::get_if<v2::Error>(&request);
  if (!error) return "fine";
  EXPECT_EQ(error->index, 0u);
  return std::to_string(error->code) + " " + error->cause;
}
std::string key_of(std::string_view target) { return as<V2ReadTarget>(get(target)).request.path; }
std::string location(std::string_view target) { return as<V2Redirect>(get(target)).location; }

TEST(V2Parse, APlainPut) {
  v2::WriteRequest request = write(put("value=a+b%20c&value=d"));
  EXPECT_EQ(request.method, v2::WriteRequest::Method::kPut);
  EXPECT_EQ(request.path, "/p");
  EXPECT_EQ(request.value.view(), "a b c") << "of several, the first counts";
  EXPECT_EQ(request.ttl_s, std::nullopt);
  EXPECT_EQ(request.prev_exist, std::nullopt);
  EXPECT_EQ(request.prev_value, std::nullopt);
  EXPECT_EQ(request.prev_index, 0u);
}

TEST(V2Parse, AllParametersOfAWrite) {
  v2::WriteRequest request = write(
      put("value=&ttl=5&refresh=true&dir=1&prevExist=F&prevIndex=7&prevValue=%7B%22a%22%3A+1%7D&noValueOnSuccess=T"));
  EXPECT_EQ(request.ttl_s, 5);
  EXPECT_TRUE(request.refresh);
  EXPECT_TRUE(request.dir);
  EXPECT_EQ(request.prev_exist, false);
  EXPECT_EQ(request.prev_index, 7u);
  EXPECT_EQ(request.prev_value, "{\"a\": 1}");
  EXPECT_TRUE(request.no_value_on_success);
}

TEST(V2Parse, TheBodyComesBeforeTheQuery) {
  EXPECT_EQ(write(put("value=b", "/v2/keys/p?value=q&ttl=9")).value.view(), "b");
  EXPECT_EQ(write(put("value=b", "/v2/keys/p?value=q&ttl=9")).ttl_s, 9);
  EXPECT_EQ(write(put("", "/v2/keys/p?value=q")).value.view(), "q");
}

TEST(V2Parse, ABodyCountsOnlyAsAFormOfPutAndPost) {
  EXPECT_EQ(write(put("value=b", "/v2/keys/p", "text/plain")).value.view(), "");
  EXPECT_EQ(write(put("value=b", "/v2/keys/p", "")).value.view(), "");
  EXPECT_EQ(write(put("value=b", "/v2/keys/p", "multipart/form-data; boundary=x")).value.view(), "");
  EXPECT_EQ(write(put("value=b", "/v2/keys/p", "APPLICATION/X-www-form-urlencoded; charset=utf-8")).value.view(), "b");
  EXPECT_EQ(write(put("value=b", "/v2/keys/p", "application/x-www-form-urlencoded; a=\"x y\";")).value.view(), "b");
  EXPECT_EQ(write(parse_v2_request("DELETE", "/v2/keys/p", kForm, "prevValue=z")).prev_value, std::nullopt);
  EXPECT_EQ(write(parse_v2_request("POST", "/v2/keys/p", kForm, "value=z")).value.view(), "z");
}

TEST(V2Parse, ABadContentTypeIsABadForm) {
  EXPECT_EQ(refusal(put("value=b", "/v2/keys/p", "application/x-www-form-urlencoded; charset")),
            "210 mime: invalid media parameter");
  EXPECT_EQ(refusal(put("value=b", "/v2/keys/p", ";;;")), "210 mime: no media type");
  EXPECT_EQ(refusal(put("value=b", "/v2/keys/p", "a b/c")), "210 mime: expected slash after first token");
  EXPECT_EQ(refusal(put("value=b", "/v2/keys/p", "a/")), "210 mime: expected token after slash");
  EXPECT_EQ(refusal(put("value=b", "/v2/keys/p", "a/b/c")), "210 mime: unexpected content after media subtype");
}

TEST(V2Parse, BadEscapesInForms) {
  EXPECT_EQ(refusal(put("a=%zz")), "210 invalid URL escape \"%zz\"");
  EXPECT_EQ(refusal(put("a=%")), "210 invalid URL escape \"%\"");
  EXPECT_EQ(refusal(put("%4=x")), "210 invalid URL escape \"%4\"");
  EXPECT_EQ(refusal(put("a;b=1")), "210 invalid semicolon separator in query");
  EXPECT_EQ(refusal(put("value=%yy", "/v2/keys/p?value=q%zz")), "210 invalid URL escape \"%yy\"");
  EXPECT_EQ(refusal(put("value=c", "/v2/keys/p?value=%zz")), "210 invalid URL escape \"%zz\"");
  EXPECT_EQ(refusal(put("&&&=x")), "fine");
}

TEST(V2Parse, Numbers) {
  const std::string ttl = "202 invalid value for \"ttl\"";
  for (const char* bad : {"ttl=-5", "ttl=abc", "ttl=0x10", "ttl=1_0", "ttl=99999999999999999999", "ttl=%2B5", "ttl=1+"}) {
    EXPECT_EQ(refusal(put(bad)), ttl) << bad;
  }
  EXPECT_EQ(write(put("ttl=")).ttl_s, std::nullopt) << "an empty ttl is none";
  EXPECT_EQ(write(put("ttl=0")).ttl_s, 0);
  EXPECT_EQ(write(put("ttl=007")).ttl_s, 7);
  EXPECT_EQ(write(put("ttl=18446744073709551615")).ttl_s, INT64_MAX);
  for (const char* bad : {"prevIndex=", "prevIndex=-1", "prevIndex=x"}) {
    EXPECT_EQ(refusal(put(bad)), "203 invalid value for \"prevIndex\"") << bad;
  }
  EXPECT_EQ(refusal(put("waitIndex=x")), "203 invalid value for \"waitIndex\"");
  EXPECT_EQ(refusal(put("prevIndex=0&prevExist=true")), "fine");
}

TEST(V2Parse, Booleans) {
  for (const char* good : {"1", "t", "T", "TRUE", "true", "True"}) {
    EXPECT_TRUE(write(put(std::string("dir=") + good)).dir) << good;
  }
  for (const char* good : {"0", "f", "F", "FALSE", "false", "False"}) {
    EXPECT_FALSE(write(put(std::string("dir=") + good)).dir) << good;
  }
  for (const char* name : {"recursive", "sorted", "wait", "dir", "quorum", "stream", "noValueOnSuccess"}) {
    EXPECT_EQ(refusal(put(std::string(name) + "=tRUE")), std::string("209 invalid value for \"") + name + '"');
    EXPECT_EQ(refusal(put(std::string(name) + "=")), std::string("209 invalid value for \"") + name + '"');
  }
  // Etcd does not quote these two.
  EXPECT_EQ(refusal(put("prevExist=")), "209 invalid value for prevExist");
  EXPECT_EQ(refusal(put("refresh=x")), "209 invalid value for refresh");
}

TEST(V2Parse, TheFirstErrorInEtcdsOrderIsTheAnswer) {
  const std::pair<const char*, const char*> kInOrder[] = {
      {"prevIndex=x", "203"}, {"waitIndex=x", "203"}, {"recursive=x", "209"}, {"sorted=x", "209"},
      {"wait=x", "209"},      {"dir=x", "209"},       {"quorum=x", "209"},    {"stream=x", "209"},
      {"prevValue=", "201"},  {"noValueOnSuccess=x", "209"}, {"ttl=x", "202"}, {"prevExist=x", "209"},
      {"refresh=x", "209"}};
  for (size_t first = 0; first < std::size(kInOrder); ++first) {
    std::string body;
    for (size_t i = std::size(kInOrder); i > first; --i) body += std::string(kInOrder[i - 1].first) + "&";
    EXPECT_EQ(refusal(put(body)), refusal(put(kInOrder[first].first))) << body;
    EXPECT_EQ(refusal(put(body)).substr(0, 3), kInOrder[first].second) << body;
  }
  EXPECT_EQ(refusal(put("wait=true&prevValue=")), "209 \"wait\" can only be used with GET requests");
}

TEST(V2Parse, RefreshWantsATtlAndNoValue) {
  EXPECT_EQ(refusal(put("refresh=true&value=3")), "211 A value was provided on a refresh");
  EXPECT_EQ(refusal(put("refresh=true")), "212 No TTL value set");
  EXPECT_EQ(refusal(put("refresh=true&ttl=")), "212 No TTL value set");
  EXPECT_EQ(refusal(put("refresh=true&ttl=5&value=")), "fine");
  EXPECT_EQ(refusal(put("refresh=false&value=3")), "fine");
  EXPECT_EQ(refusal(get("/v2/keys/p?refresh=true")), "212 No TTL value set") << "whatever the method";
}

TEST(V2Parse, Reads) {
  V2ReadTarget read = as<V2ReadTarget>(get("/v2/keys/a?recursive=true&sorted=true"));
  EXPECT_EQ(read.request.path, "/a");
  EXPECT_TRUE(read.request.recursive);
  EXPECT_TRUE(read.request.sorted);
  EXPECT_TRUE(read.linearizable);
  EXPECT_TRUE(as<V2ReadTarget>(get("/v2/keys/a?quorum=true")).linearizable);
  EXPECT_FALSE(as<V2ReadTarget>(get("/v2/keys/a?quorum=false")).linearizable);
  EXPECT_EQ(as<V2ReadTarget>(parse_v2_request("HEAD", "/v2/keys/a", "", "")).request.path, "/a");
}

TEST(V2Parse, Watches) {
  auto watch = as<v2::WatchRequest>(get("/v2/keys/a/?wait=true&recursive=true&stream=true&waitIndex=12"));
  EXPECT_EQ(watch.path, "/a");
  EXPECT_TRUE(watch.recursive);
  EXPECT_TRUE(watch.stream);
  EXPECT_EQ(watch.wait_index, 12u);
  EXPECT_EQ(refusal(parse_v2_request("HEAD", "/v2/keys/a?wait=true", "", "")),
            "209 \"wait\" can only be used with GET requests");
}

TEST(V2Parse, Deletes) {
  auto request = write(parse_v2_request("DELETE", "/v2/keys/a?recursive=true&dir=true&prevIndex=4&prevValue=x", "", ""));
  EXPECT_EQ(request.method, v2::WriteRequest::Method::kDelete);
  EXPECT_TRUE(request.recursive);
  EXPECT_TRUE(request.dir);
  EXPECT_EQ(request.prev_index, 4u);
  EXPECT_EQ(request.prev_value, "x");
}

TEST(V2Parse, KeysAreDecodedAndAPlusIsAPlus) {
  EXPECT_EQ(key_of("/v2/keys"), "/");
  EXPECT_EQ(key_of("/v2/keys/"), "/");
  EXPECT_EQ(key_of("/v2/keys?"), "/");
  EXPECT_EQ(key_of("/v2/keys/x/"), "/x");
  EXPECT_EQ(key_of("/v2/keys/a+b=c"), "/a+b=c");
  EXPECT_EQ(key_of("/v2/keys/a%20b"), "/a b");
  EXPECT_EQ(key_of("/v2/keys/a%2Fb"), "/a/b");
  EXPECT_EQ(key_of("/v2/keys/a%3Fb%23#f"), "/a?b##f");
  EXPECT_EQ(key_of("/v2/keys/%ff%00x"), std::string("/\xff\0x", 4));
  EXPECT_EQ(key_of("/v2/keys/..."), "/...");
  EXPECT_EQ(key_of("/v2/k%65ys/a"), "/a");
  EXPECT_EQ(key_of("http://h:1/v2/keys/a"), "/a");
}

TEST(V2Parse, UncleanPathsAreRedirected) {
  EXPECT_EQ(location("/v2/keys/a//b"), "/v2/keys/a/b");
  EXPECT_EQ(location("/v2/keys/a/./b?x=1&y=%zz"), "/v2/keys/a/b?x=1&y=%zz");
  EXPECT_EQ(location("/v2/keys/a/../b"), "/v2/keys/b");
  EXPECT_EQ(location("/v2/keys/../x"), "/v2/x");
  EXPECT_EQ(location("/v2/keys/../../../.."), "/");
  EXPECT_EQ(location("/v2/keys/a%2F%2fb"), "/v2/keys/a/b");
  EXPECT_EQ(location("/v2/keys/a/%2e%2e/b"), "/v2/keys/b");
  EXPECT_EQ(location("/v2/keys//"), "/v2/keys/");
  EXPECT_EQ(location("//v2/keys/a"), "/v2/keys/a");
  EXPECT_EQ(location("/v2/keys/."), "/v2/keys");
  EXPECT_EQ(location("/v2/keys/%e2%82%ac//x?\xff"), "/v2/keys/%E2%82%AC/x?%ff");
  EXPECT_EQ(location("/v2/keys/%41!'()*$&+,;=:@//~-_.[]|^`{}\"<>\\"),
            "/v2/keys/A%21%27%28%29%2A$&+,;=:@/~-_.%5B%5D%7C%5E%60%7B%7D%22%3C%3E%5C");
  EXPECT_TRUE(std::holds_alternative<V2Redirect>(parse_v2_request("PATCH", "/v2/keys//a", "", "")));
}

TEST(V2Parse, MalformedTargetsAndMethods) {
  for (const char* bad : {"/v2/keys/%zz", "/v2/keys/%", "/v2/keys/%4", "*", "", "v2/keys/a", "/v2/keys/\x7f",
                          "/v2/keys/a?x=\x01", "/v2/keys/a b", "http://h", "/v2/keysx"}) {
    EXPECT_TRUE(std::holds_alternative<V2BadTarget>(get(bad))) << bad;
  }
  for (const char* method : {"PATCH", "FOO", "get", "", "CONNECT"}) {
    EXPECT_TRUE(std::holds_alternative<V2MethodNotAllowed>(parse_v2_request(method, "/v2/keys/a", "", ""))) << method;
  }
}

TEST(V2Parse, KnowsItsTargets) {
  for (const char* own : {"/v2/keys", "/v2/keys/", "/v2/keys?x", "/v2/keys/a", "//v2/keys/a", "/v2/k%65ys/a",
                          "/v2/keys/%zz", "/v2/keys/../x"}) {
    EXPECT_TRUE(is_v2_keys_target(own)) << own;
  }
  for (const char* other : {"/v2/keysx", "/v2/machines", "/", "", "*", "/version"}) {
    EXPECT_FALSE(is_v2_keys_target(other)) << other;
  }
}

}  // namespace
}  // namespace rallypoint::server
