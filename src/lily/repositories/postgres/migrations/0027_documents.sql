-- What is shown of an edge is put together where it is shown (edge_about, Edges.documents).
DROP FUNCTION IF EXISTS transformation (boolean, boolean, text);
DROP TYPE edge_document;
