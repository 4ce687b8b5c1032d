from penstock.services.metrics import Metrics


def test_counters_gauges_and_histograms_render_in_prometheus_text_format():
    metrics = Metrics()
    metrics.counter("requests_total", "Requests.", api="fetch").add(3)
    metrics.gauge("connections", "Open ones.", lambda: 7)
    seconds = metrics.histogram("request_seconds", "How long.", api="fetch")
    seconds.observe(0.003)
    seconds.observe(100.0)
    text = metrics.render()
    assert 'requests_total{api="fetch"} 3\n' in text
    assert "# TYPE connections gauge\nconnections 7\n" in text
    assert 'request_seconds_bucket{api="fetch",le="0.002"} 0\n' in text
    assert 'request_seconds_bucket{api="fetch",le="0.005"} 1\n' in text
    assert 'request_seconds_bucket{api="fetch",le="+Inf"} 2\n' in text
    assert 'request_seconds_count{api="fetch"} 2\n' in text


def test_the_same_name_and_labels_are_one_counter():
    metrics = Metrics()
    metrics.counter("a", "x", k="1").add()
    metrics.counter("a", "x", k="1").add()
    metrics.counter("a", "x", k="2").add()
    assert 'a{k="1"} 2' in metrics.render()
    assert 'a{k="2"} 1' in metrics.render()
