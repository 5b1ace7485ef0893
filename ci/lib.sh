# shellcheck shell=bash
# Sourced by every step: counting, timing, and a last line that ci/run adds up. Bash.
# A step calls `step NAME`, then pass, fail, skip or cargo_tests, then `finish`.
set -uo pipefail

# A shell that was started in the background passes ignored signals on to all its children (and cannot take that back itself): ranks of a
# test would not end by them. So a step begins once more with the defaults.
if [ -z "${WEFT_CI_SIGNALS:-}" ]; then
    export WEFT_CI_SIGNALS=default
    exec env --default-signal=INT,QUIT,HUP bash "$0" "$@"
fi
unset WEFT_CI_SIGNALS

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
command -v cargo >/dev/null 2>&1 || PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
export CARGO_TERM_COLOR=never RUST_BACKTRACE=0
# Nobody reads line numbers of a backtrace here, and writing them down is a part of every compilation and of every link.
export CARGO_PROFILE_DEV_DEBUG=${CARGO_PROFILE_DEV_DEBUG:-0}
# One run tests the same cases as the next; new ones are searched with another seed.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-4711}
# Where the tests find the installation under test; ci/test makes it.
export WEFT_PREFIX=${WEFT_PREFIX:-$root/prefix}

passed=0
failed=0
skipped=0

step() {
    step_name=$1
    step_start=$SECONDS
    echo "=== $step_name"
}
pass() {
    passed=$((passed + 1))
    echo "ok    $*"
}
fail() {
    failed=$((failed + 1))
    echo "FAIL  $*"
}
skip() {
    skipped=$((skipped + 1))
    echo "skip  $*"
}
# Runs a command as one check of its own: `check TEXT COMMAND...`.
check() {
    local text=$1
    shift
    if "$@"; then pass "$text"; else fail "$text"; fi
}
# Runs cargo test (or another command with its report) and adds its counts to ours; a run that ends badly without
# a failed test (it does not compile, it was killed) counts as one failure. Tests that do nothing here write why to the
# file WEFT_TEST_SKIPS, a line each: they count as skipped and not as passed.
cargo_tests() {
    local log status counts skips why
    log=$(mktemp)
    skips=$(mktemp)
    WEFT_TEST_SKIPS=$skips "$@" 2>&1 | tee "$log" |
        grep --line-buffered -vE '^(running [0-9]+ tests?|test .* \.\.\. ok|)$|^ *(Compiling|Downloaded|Downloading|Running|Doc-tests|Finished) '
    status=${PIPESTATUS[0]}
    counts=$(awk '/^test result:/ { p += $4; f += $6; i += $8 } END { print p + 0, f + 0, i + 0 }' "$log")
    rm -f "$log"
    read -r p f i <<<"$counts"
    passed=$((passed + p))
    failed=$((failed + f))
    skipped=$((skipped + i))
    if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then
        local said=$*
        fail "exit code $status of: ${said:0:300}"
    fi
    [ "$i" -eq 0 ] || echo "skip  $i ignored tests of: $*"
    while read -r why; do
        passed=$((passed - 1))
        skip "$why"
    done <"$skips"
    rm -f "$skips"
}
# Whether the text says that something could not be fetched (a reason to skip), and not that our code is wrong.
could_not_fetch() {
    grep -qiE 'no matching package|failed to (get|download|fetch|query)|unable to (get|update)|could not (connect|resolve)|network failure|spurious network|timed out' <<<"$1"
}
# A number that counts up with the commits: which part of what is too much for one run has its turn. WEFT_TEST_TURN sets it.
turn() {
    echo "${WEFT_TEST_TURN:-$(git rev-list --count HEAD 2>/dev/null || echo 0)}"
}
# How many times as many commits it takes until all parts have had their turn: 2 on a machine so slow that a whole run would take too long
# (ci/run looks how long its first steps take), else 1. With WEFT_TEST_TURNS=all it is 1.
pace() {
    if [ "${WEFT_TEST_TURNS:-}" = all ]; then echo 1; else echo "${WEFT_TEST_PACE:-1}"; fi
}
# has_turn PART COUNT WHAT: whether this part of a step, one of so many (from 0 on), has its turn; says so when it has not. With
# WEFT_TEST_TURNS=all every one has.
has_turn() {
    local count=$(($2 * $(pace)))
    if [ "${WEFT_TEST_TURNS:-}" = all ] || [ $(($(turn) % count)) -eq "$1" ]; then
        return 0
    fi
    echo "      not its turn: $3 (one of $count parts; WEFT_TEST_TURN=$(turn), WEFT_TEST_TURNS=all runs all)"
    return 1
}
# Of the lines that come in, part NUMBER of COUNT (any number: they go round): neighbours, which have much in common, are in different parts.
part_of_lines() {
    awk -v part="$(($1 % $2))" -v count="$2" '(NR - 1) % count == part'
}
# The crates with loom models, one in a line.
crates_with_models() {
    grep -lE '^loom\b' core/*/Cargo.toml transports/*/Cargo.toml | xargs -r grep -hm1 '^name = ' | sed 's/^name = "\(.*\)"$/\1/'
}
finish() {
    echo "--- $step_name: $passed passed, $failed failed, $skipped skipped in $((SECONDS - step_start)) s"
    [ "$failed" -eq 0 ]
    exit
}
