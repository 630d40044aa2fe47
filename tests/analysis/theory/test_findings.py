from solar_tf.cli.solar import main


def test_the_page_and_the_markdown_have_every_claim(tmp_path, capsys):
    page, markdown = tmp_path / "theory.html", tmp_path / "theory.md"
    main(["theory", "--quick", "--out", str(page), "--markdown", str(markdown)])
    text = markdown.read_text()
    assert text.count("\n## ") == text.count("*The paper:*") == 6
    assert page.read_text().count("<svg") == 5
    assert "nan" not in text.lower().split()
    assert str(page) in capsys.readouterr().out
