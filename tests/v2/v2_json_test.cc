// The text of answers and errors, as etcd 3.4 writes it (read off real answers).
#include "server/api/v2_json.h"

#include <gtest/gtest.h>

#include "tests/v2/support.h"

namespace rallypoint::server {
namespace {

using namespace v2::testing;

class V2Json : public ::testing::Test {
 protected:
  std::string write(const v2::WriteRequest& request) { return encode_event(ok(tree.apply(request, now))); }

  v2::Tree tree;
  v2::Clock now{Instant{0}, 1'796'112'036'172'624'039};  // 2026-12-01T08:00:36.172624039Z
};

std::string json_of(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST_F(V2Json, AFileWithItsPredecessor) {
  write(put("/a", "1"));
  EXPECT_EQ(write(put("/a", "2")),
            R"({"action":"set","node":{"key":"/a","value":"2","modifiedIndex":5,"createdIndex":5},)"
            R"("prevNode":{"key":"/a","value":"1","modifiedIndex":4,"createdIndex":4}})"
            "\n");
}

TEST_F(V2Json, AnEmptyValueIsShownAndADeletedOneIsNot) {
  EXPECT_EQ(write(put("/a")),
            "{\"action\":\"set\",\"node\":{\"key\":\"/a\",\"value\":\"\",\"modifiedIndex\":4,\"createdIndex\":4}}\n");
  EXPECT_EQ(write(erase("/a")),
            R"({"action":"delete","node":{"key":"/a","modifiedIndex":5,"createdIndex":4},)"
            R"("prevNode":{"key":"/a","value":"","modifiedIndex":4,"createdIndex":4}})"
            "\n");
}

TEST_F(V2Json, ADirectoryWithTtlAndChildren) {
  write(make_dir("/c", 100));
  write(put("/c/d", "1"));
  EXPECT_EQ(encode_event(ok(tree.read({"/c", false, false}, now))),
            R"({"action":"get","node":{"key":"/c","dir":true,"expiration":"2026-12-01T08:02:16.172624039Z","ttl":100,)"
            R"("nodes":[{"key":"/c/d","value":"1","modifiedIndex":5,"createdIndex":5}],)"
            R"("modifiedIndex":4,"createdIndex":4}})"
            "\n");
}

TEST_F(V2Json, AnEmptyRootShowsNothingButThatItIsADirectory) {
  ok(tree.apply(erase("/torch", true, true), now));
  EXPECT_EQ(encode_event(ok(tree.read({"/", false, false}, now))), "{\"action\":\"get\",\"node\":{\"dir\":true}}\n");
}

TEST_F(V2Json, TimesAreRfc3339WithoutTrailingZeros) {
  auto time = [&](int64_t unix_ns) {
    v2::Event event;
    event.node.expiration_unix_ns = unix_ns;
    const std::string text = encode_event(event);
    const size_t begin = text.find("expiration\":\"") + 13;
    return text.substr(begin, text.find('"', begin) - begin);
  };
  EXPECT_EQ(time(1), "1970-01-01T00:00:00.000000001Z");
  EXPECT_EQ(time(951'782'400'000'000'000), "2000-02-29T00:00:00Z");
  EXPECT_EQ(time(951'868'799'500'000'000), "2000-02-29T23:59:59.5Z");
  EXPECT_EQ(time(4'107'542'399'120'000'000), "2100-02-28T23:59:59.12Z");
  EXPECT_EQ(time(4'107'542'400'000'000'000), "2100-03-01T00:00:00Z");
  EXPECT_EQ(time(-1), "1969-12-31T23:59:59.999999999Z");
}

TEST_F(V2Json, NoValueOnSuccessLeavesOnlyTheActionToTheWriterAndAllToWatchers) {
  v2::WriteRequest request = put("/a", "1");
  request.no_value_on_success = true;
  const v2::Event event = ok(tree.apply(request, now));
  EXPECT_EQ(encode_write_answer(event), "{\"action\":\"set\"}\n");
  EXPECT_EQ(http_status(event), 201);
  EXPECT_NE(encode_event(event).find("\"value\":\"1\""), std::string::npos);
}

TEST_F(V2Json, ErrorsLeaveAnEmptyCauseOut) {
  EXPECT_EQ(encode_error({100, "/c/x", 10}),
            "{\"errorCode\":100,\"message\":\"Key not found\",\"cause\":\"/c/x\",\"index\":10}\n");
  EXPECT_EQ(encode_error({102, "", 14}), "{\"errorCode\":102,\"message\":\"Not a file\",\"index\":14}\n");
  EXPECT_EQ(encode_error({209, "invalid value for \"dir\"", 0}),
            "{\"errorCode\":209,\"message\":\"Invalid field\",\"cause\":\"invalid value for \\\"dir\\\"\",\"index\":0}\n");
}

TEST_F(V2Json, StatusOfErrors) {
  EXPECT_EQ(http_status(v2::Error{100, "", 0}), 404);
  EXPECT_EQ(http_status(v2::Error{101, "", 0}), 412);
  EXPECT_EQ(http_status(v2::Error{102, "", 0}), 403);
  EXPECT_EQ(http_status(v2::Error{104, "", 0}), 400);
  EXPECT_EQ(http_status(v2::Error{105, "", 0}), 412);
  EXPECT_EQ(http_status(v2::Error{107, "", 0}), 400);
  EXPECT_EQ(http_status(v2::Error{108, "", 0}), 403);
  EXPECT_EQ(http_status(v2::Error{110, "", 0}), 401);
  EXPECT_EQ(http_status(v2::Error{212, "", 0}), 400);
  EXPECT_EQ(http_status(v2::Error{300, "", 0}), 500);
  EXPECT_EQ(http_status(v2::Error{401, "", 0}), 400);
}

TEST_F(V2Json, StringsAreEscapedAsGoDoes) {
  EXPECT_EQ(json_of("a\"b\\c/\n\r\t\b\f\x01\x1f\x7f"), "\"a\\\"b\\\\c/\\n\\r\\t\\u0008\\u000c\\u0001\\u001f\x7f\"");
  EXPECT_EQ(json_of("<&>"), "\"\\u003c\\u0026\\u003e\"");
  EXPECT_EQ(json_of("\xc3\xa9\xf0\x9f\x98\x80\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa"),
            "\"\xc3\xa9\xf0\x9f\x98\x80\\u2028\\u2029\xe2\x80\xaa\"");
}

TEST_F(V2Json, EveryByteAtEveryPlaceIsTreatedAlike) {
  for (int c = 0; c < 256; ++c) {
    const std::string byte(1, static_cast<char>(c));
    const std::string alone = json_of(byte).substr(1, json_of(byte).size() - 2);
    for (size_t before = 0; before < 18; ++before) {
      for (size_t after : {size_t{0}, size_t{1}, size_t{9}}) {
        EXPECT_EQ(json_of(std::string(before, 'x') + byte + std::string(after, 'y')),
                  '"' + std::string(before, 'x') + alone + std::string(after, 'y') + '"')
            << c;
      }
    }
  }
}

TEST_F(V2Json, EachByteOfInvalidUtf8BecomesAReplacement) {
  EXPECT_EQ(json_of("\xff"), "\"\\ufffd\"");
  EXPECT_EQ(json_of("\xed\xa0\x80"), "\"\\ufffd\\ufffd\\ufffd\"") << "a surrogate";
  EXPECT_EQ(json_of("\xf4\x90\x80\x80"), "\"\\ufffd\\ufffd\\ufffd\\ufffd\"") << "above U+10FFFF";
  EXPECT_EQ(json_of("\xe2\x82"), "\"\\ufffd\\ufffd\"") << "cut off";
  EXPECT_EQ(json_of("\xc0\xaf"), "\"\\ufffd\\ufffd\"") << "overlong";
}

}  // namespace
}  // namespace rallypoint::server
