# shellcheck shell=bash
# Sourced by ci/run and ci/test: runs steps one after another and adds up what they counted. Bash.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

# Seconds the whole run may take; a step that goes beyond is ended and counts as failed.
limit=${WEFT_TEST_LIMIT:-4500}
total_passed=0
total_failed=0
total_skipped=0
failures=

run_steps() {
    local name log status line left
    for name in "$@"; do
        left=$((limit - SECONDS))
        log=$(mktemp)
        if [ "$left" -le 5 ]; then
            echo "FAIL  $name: no time left of $limit s" | tee "$log"
            status=124
        else
            timeout --kill-after=10 "$left" "ci/$name" 2>&1 | tee "$log"
            status=${PIPESTATUS[0]}
        fi
        line=$(sed -n 's/^--- .*: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped in .*/\1 \2 \3/p' "$log" | tail -n 1)
        read -r p f s <<<"${line:-0 0 0}"
        # A step that did not reach its last line, or failed without saying what, is a failure itself.
        if [ -z "$line" ] || { [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; }; then
            echo "FAIL  $name ended with code $status"
            f=$((f + 1))
        fi
        if [ $((p + f + s)) -eq 0 ]; then
            echo "FAIL  $name found nothing to check"
            f=1
        fi
        total_passed=$((total_passed + p))
        total_failed=$((total_failed + f))
        total_skipped=$((total_skipped + s))
        [ "$f" -eq 0 ] || failures="$failures $name"
        rm -f "$log"
    done
}

report() {
    echo
    [ -z "$failures" ] || echo "failed steps:$failures (each runs alone as ci/NAME)"
    echo "whole run: $SECONDS s"
    echo "$total_passed passed, $total_failed failed, $total_skipped skipped"
    [ "$total_failed" -eq 0 ]
    exit
}
